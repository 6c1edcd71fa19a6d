"""Configuration: option groups of kiln itself, one module each."""
