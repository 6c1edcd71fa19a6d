"""Requests to Heat, with the errors of the compute contract."""
