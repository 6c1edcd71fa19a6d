"""A driver in Python, to copy: each node shows a page, and one of them keeps the state."""
