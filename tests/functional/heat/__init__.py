"""Drivers on Heat with the real one."""
