"""Base of cluster drivers whose engine is a program: driver.yaml, and any executable file."""
