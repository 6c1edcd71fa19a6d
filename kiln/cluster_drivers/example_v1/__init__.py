"""Example cluster driver in Python, to copy: web pages, and one node with state."""
