"""Hooks as real programs and servers, called by processes that are killed."""
