"""A simulated cloud that keeps every promise of the compute contract."""
