"""Cluster file: YAML reader, writer, checks and JSON schema."""
