"""Nodes that a driver with an engine of its own can name without asking the engine."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from kiln.clusters.models import Cluster, Node


class KnownNodes(abc.ABC):
    """A driver that keeps the places of its nodes with the cluster.

    kiln reads them before a group is resized. Then the group loses the flavors and zones of the
    nodes that go, so that no other node has to move.
    """

    @abc.abstractmethod
    def known_nodes(self, cluster: Cluster) -> Sequence[Node]:
        """Return the nodes of a cluster by what the driver has kept; pure.

        The place of a node is the one that it counts for in the shape of its group. Its flavor
        is None where the group counts no flavors.
        """
