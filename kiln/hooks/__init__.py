"""Lifecycle hooks: site code called before and after cluster and node actions."""
