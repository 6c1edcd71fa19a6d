"""Builds and deletes of containers: none is doubled, lost or left behind."""
