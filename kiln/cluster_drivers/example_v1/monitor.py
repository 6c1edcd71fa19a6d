"""Monitor of the share of ready nodes."""

from __future__ import annotations

from collections.abc import Mapping

from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.clusters.models import NodeState


class ExampleMonitor(Monitor):
    """Counts nodes; a real monitor would poll them, within the deadline."""

    metrics = (
        Metric('nodes', 'nodes', 'Existing nodes.'),
        Metric('ready', 'share', 'The share of nodes that are ready.'),
    )

    def pull(self) -> Mapping[str, float | None]:
        """Return both numbers; without nodes, the share is unknown."""
        nodes = self.context.nodes
        ready = sum(node.state is NodeState.READY for node in nodes)
        return {'nodes': len(nodes), 'ready': ready / len(nodes) if nodes else None}
