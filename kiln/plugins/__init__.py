"""Installed packages: entry points, extras, signatures."""
