"""Clusters, for who wants them: ask, see what would happen, have it done, and look."""
