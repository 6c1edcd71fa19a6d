"""Health of clusters and nodes: standing check, check operation, driver upkeep."""
