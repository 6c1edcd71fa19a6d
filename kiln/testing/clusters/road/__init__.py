"""The user's way with a driver: a cluster file, a site, and what machines answer."""
