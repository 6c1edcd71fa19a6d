"""Migrations, in the order of their file names."""
