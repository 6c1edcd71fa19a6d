"""Clusters for callers: plan, apply, and inspect."""
