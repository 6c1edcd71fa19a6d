"""Suites on what a release consists of; they need git and a package index."""
