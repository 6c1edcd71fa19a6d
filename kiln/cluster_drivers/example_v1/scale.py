"""Scale manager that keeps the node with the state."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.clusters.models import Node
from kiln.clusters.spec import NodeGroupSpec


class ExampleScaleManager(DefaultScaleManager):
    """Keeps the oldest node of the cluster, which has the state."""

    def order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return the other nodes in the given order."""
        everyone = (*self.context.nodes, *nodes)
        oldest = min(everyone, key=lambda node: (node.created_at, node.id), default=None)
        may_go = [node for node in nodes if oldest is None or node.id != oldest.id]
        return super().order(nodegroup, may_go)
