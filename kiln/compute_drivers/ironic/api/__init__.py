"""Requests to Ironic, and the mapping of its errors."""
