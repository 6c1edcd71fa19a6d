"""Runs the kit without a test runner, and reports the result."""
