"""Behaviours of compute drivers, one module for each subject."""
