"""What turns nodes into clusters: the contract, how a driver is found, and drivers."""
