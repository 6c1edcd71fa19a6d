"""The history of the tables, one step each; ``kiln db upgrade`` walks it."""
