"""Drivers of nodes that are wrong in one way each, by what a user would notice."""
