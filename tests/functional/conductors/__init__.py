"""Several conductors at once, with real boards and databases."""
