"""Cluster driver with an engine of its own: a stack for each cluster."""
