"""Tests of the adapter inside Octavia; they need a Python with Octavia installed."""
