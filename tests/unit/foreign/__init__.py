"""Tests of what comes from others."""
