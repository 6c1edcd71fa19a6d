"""Suites on a real Prometheus and on a collector of traces."""
