"""Hooks that are real programs and real servers, called by processes that are killed."""
