"""Commands on node images."""
