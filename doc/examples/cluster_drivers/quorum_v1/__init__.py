"""Cluster driver for nodes with code: members with a leader and a quorum."""
