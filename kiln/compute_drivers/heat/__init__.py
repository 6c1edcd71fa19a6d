"""Compute driver for Heat: each amphora is a stack of its own, with a server and its ports."""
