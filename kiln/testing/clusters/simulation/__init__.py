"""Simulated site, and the course of one cluster on it."""
