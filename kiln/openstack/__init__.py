"""Connections to OpenStack services: identity options, sessions and replies.

Shared by the drivers whose backend is a service of OpenStack; each maps replies to the errors
of its own contract.
"""
