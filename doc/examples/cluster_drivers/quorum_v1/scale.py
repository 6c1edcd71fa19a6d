"""Scale manager that keeps a majority of the members at work."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.cluster_drivers.scale import ScaleManager
from kiln.clusters.models import Node
from kiln.clusters.spec import NodeGroupSpec

from . import members


class QuorumScaleManager(ScaleManager):
    """Lets so many members go that the others are still a majority."""

    def order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return the members that can go, in the given order."""
        spare = len(members.ready(self.context)) - members.majority(self.context)
        return nodes[: max(0, spare)]

    replacement_order = order
