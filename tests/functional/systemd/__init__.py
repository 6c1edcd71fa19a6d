"""Suites on the unit of the conductor; they need systemd-analyze (apt-get install systemd)."""
