"""Bare-metal amphorae: nodes of Ironic, claimed by allocations."""
