"""Which nodes may go."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.cluster_models import Node
from kiln.cluster_spec import NodeGroupSpec


class ExampleScaleManager(DefaultScaleManager):
    """Keeps the oldest node of the cluster: the state is there."""

    def order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return the others in the order in which they come."""
        everyone = (*self.context.nodes, *nodes)
        oldest = min(everyone, key=lambda node: (node.created_at, node.id), default=None)
        may_go = [node for node in nodes if oldest is None or node.id != oldest.id]
        return super().order(nodegroup, may_go)
