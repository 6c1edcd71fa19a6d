"""Drivers on Heat, without a server: pure parts, and a Heat that is played."""
