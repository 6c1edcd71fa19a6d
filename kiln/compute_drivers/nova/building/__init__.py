"""Builds and deletes of servers: none is doubled, lost or left behind."""
