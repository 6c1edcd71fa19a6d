"""Adapters that run kiln inside another controller, one package for each."""
