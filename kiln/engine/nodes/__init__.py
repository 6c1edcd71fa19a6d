"""Nodes of one cluster: actions, hooks, the table, the transaction."""
