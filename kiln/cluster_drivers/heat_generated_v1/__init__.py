"""Cluster driver on Heat whose template is generated: one resource for each node."""
