"""Tests of the adapter inside Octavia; run with a Python that has Octavia installed."""
