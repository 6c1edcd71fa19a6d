"""Conformance bench of the Heat driver: the time that its backends take."""

from __future__ import annotations

from kiln.compute_drivers.nova.bench import NovaBench


class StackBench(NovaBench):
    """Shows what Nova shows about the server of a stack."""
