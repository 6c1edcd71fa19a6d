"""Cluster drivers: the contract, discovery, selection and the drivers in tree."""
