"""Heat's API: its requests, and the stacks, resources and changes in its answers."""
