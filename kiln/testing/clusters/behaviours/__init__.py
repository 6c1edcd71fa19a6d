"""Behaviours of cluster drivers, one module for each subject."""
