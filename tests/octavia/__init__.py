"""The adapter inside Octavia itself; run with a Python that has Octavia installed."""
