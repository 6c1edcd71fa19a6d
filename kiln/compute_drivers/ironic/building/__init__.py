"""Builds on Ironic: what is deployed, and the claims of nodes."""
