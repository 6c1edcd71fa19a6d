"""A simulated site, and the course of one cluster on it."""
