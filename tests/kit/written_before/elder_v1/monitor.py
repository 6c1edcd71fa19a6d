"""How much of a cluster does its work."""

from __future__ import annotations

from collections.abc import Mapping

from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.cluster_models import NodeState


class ExampleMonitor(Monitor):
    """Counts nodes; a real one would ask them, within the deadline."""

    metrics = (
        Metric('nodes', 'nodes', 'Nodes that are there.'),
        Metric('ready', 'share', 'The share of them that does its work.'),
    )

    def pull(self) -> Mapping[str, float | None]:
        """Return both numbers; of no nodes there is no share."""
        nodes = self.context.nodes
        ready = sum(node.state is NodeState.READY for node in nodes)
        return {'nodes': len(nodes), 'ready': ready / len(nodes) if nodes else None}
