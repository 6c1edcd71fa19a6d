"""Conformance suite of cluster drivers, without the crash tests."""

from __future__ import annotations

from kiln.testing.clusters.behaviours.answers import Answers
from kiln.testing.clusters.behaviours.declaration import Declaration
from kiln.testing.clusters.behaviours.life import Life


class ClusterDriverConformance(Declaration, Answers, Life):
    """Every promise of a cluster driver; see the package."""
