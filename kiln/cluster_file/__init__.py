"""The page that an operator writes: read, checked, written and described."""
