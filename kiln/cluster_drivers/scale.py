"""Which nodes of a group may go when fewer are wanted, where a driver knows better."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster, Node
from kiln.clusters.spec import NodeGroupSpec


class ScaleManager(abc.ABC):
    """Has a say in which nodes of one cluster go; made anew for each choice."""

    def __init__(self, context: Context, cluster: Cluster) -> None:
        self.context = context
        self.cluster = cluster

    def victims(
        self, nodegroup: NodeGroupSpec, nodes: Sequence[Node], number: int
    ) -> tuple[Node, ...]:
        """Return the nodes that go; they are written down together with the new count.

        :param nodes: Those to choose from, in the order of the group's rules: all of
            one flavor and zone, where there are too many of these.
        :raises ClusterDriverError: the driver lets too few go, or names others.
        """
        order = self.order(nodegroup, nodes)
        ids = {node.id for node in order}
        if len(ids) != len(order) or not ids <= {node.id for node in nodes}:
            raise ClusterDriverError(
                f'Cannot choose the nodes of group {nodegroup.name} that go: the driver '
                f'names nodes that are not to choose from, or one twice.',
                'Name the nodes to remove.',
            )
        if len(order) < number:
            raise ClusterDriverError(
                f'Cannot remove {number} nodes of group {nodegroup.name}: the driver lets '
                f'{len(order)} go.',
                'Remove fewer, or name the nodes to remove.',
            )
        return tuple(order[:number])

    @abc.abstractmethod
    def order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return the nodes in the order in which they should go.

        They come in the order of the group's rules. One that must not go now, because
        it has work that cannot move, is left out.
        """


class DefaultScaleManager(ScaleManager):
    """Lets every node go, in the order of the group's rules."""

    def order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return the nodes as they come."""
        return nodes
