"""Runs whose processes are killed at a commit."""
