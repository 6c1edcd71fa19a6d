"""All behaviours of a cluster driver for which nobody has to die, in one suite."""

from __future__ import annotations

from kiln.testing.clusters.answers import Answers
from kiln.testing.clusters.declaration import Declaration
from kiln.testing.clusters.life import Life


class ClusterDriverConformance(Declaration, Answers, Life):
    """Every promise of a cluster driver; see the package."""
