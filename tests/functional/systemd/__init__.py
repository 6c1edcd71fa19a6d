"""Suites on the unit of the conductor; they need root, systemd and mmdebstrap."""
