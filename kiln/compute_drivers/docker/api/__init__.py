"""Requests to one container engine, and what its answers mean."""
