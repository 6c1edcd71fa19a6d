"""Base of cluster drivers whose engine is Heat: a template and mappings, or a generator."""
