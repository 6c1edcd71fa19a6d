"""Requests to the services of one cloud, and what their answers mean."""
