"""The engine in processes that are killed."""
