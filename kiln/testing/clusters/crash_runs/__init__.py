"""Crash runs: operations whose processes are killed at a commit."""
