"""Cluster driver on Heat with one resource group, and maps of its members' values by index."""
