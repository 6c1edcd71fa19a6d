"""The pure planner: from the desired and the actual state to changes; no I/O."""
