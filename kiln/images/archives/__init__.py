"""Package archives that images are built from."""
