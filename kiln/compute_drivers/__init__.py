"""Compute drivers: the contract in base.py, and one folder for each backend."""
