"""Parts of the simulated cloud: machines, ports, groups, catalogue, store."""
