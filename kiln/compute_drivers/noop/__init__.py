"""Noop compute driver: a simulated cloud that fulfils the compute contract."""
