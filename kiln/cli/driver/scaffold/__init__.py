"""Skeletons of new drivers, and forks of cluster drivers."""
