"""Nodes of one cluster: actions, their outcomes, the table, the transaction."""
