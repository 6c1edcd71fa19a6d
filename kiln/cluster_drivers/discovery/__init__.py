"""Discovery of cluster drivers: sources, manifests, driver.yaml, lint."""
