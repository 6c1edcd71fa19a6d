"""Scale manager of a swarm: order in which nodes are removed."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterError
from kiln.clusters.models import Cluster, Node, NodeState
from kiln.clusters.spec import NodeGroupSpec

from .view import View


class SwarmScaleManager(ScaleManager):
    """Removes nodes that are not ready first, then nodes with the fewest tasks.

    The leader of the managers is removed last. If the swarm does not answer, nodes are
    removed in the order of the group's rules.
    """

    def __init__(self, context: Context, cluster: Cluster, view: View) -> None:
        super().__init__(context, cluster)
        self._view = view

    def order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return the nodes in the order of removal; send two requests to a manager."""
        try:
            with self._view.manager() as manager:
                peers, tasks = manager.peers(), manager.tasks()
        except ClusterError:
            return nodes
        load = collections.Counter(task.peer_id for task in tasks if task.there)
        of = {peer.node_id: (peer.leader, load[peer.id]) for peer in peers if peer.ready}
        return sorted(
            nodes,
            key=lambda node: (node.state is NodeState.READY, of.get(node.id, (False, 0))),
        )
