"""Scale managers: a driver's choice of the nodes that are removed."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster, Node
from kiln.clusters.spec import NodeGroupSpec


class ScaleManager(abc.ABC):
    """Influences which nodes of one cluster are removed; created for each choice."""

    def __init__(self, context: Context, cluster: Cluster) -> None:
        self.context = context
        self.cluster = cluster

    def victims(
        self, nodegroup: NodeGroupSpec, nodes: Sequence[Node], number: int
    ) -> tuple[Node, ...]:
        """Return the nodes to remove; they are stored together with the new count.

        :param nodes: The nodes to choose from, in the order of the group's rules: all nodes of
            a flavor and zone that has too many.
        :raises ClusterDriverError: the driver returns too few nodes, or other nodes.
        """
        order = self.order(nodegroup, nodes)
        ids = {node.id for node in order}
        if len(ids) != len(order) or not ids <= {node.id for node in nodes}:
            raise ClusterDriverError(
                f'Cannot choose the nodes to remove from group {nodegroup.name}: the driver '
                f'names nodes outside the choice, or a node twice.',
                'Name the nodes to remove.',
            )
        if len(order) < number:
            raise ClusterDriverError(
                f'Cannot remove {number} nodes of group {nodegroup.name}: the driver '
                f'allows {len(order)}.',
                'Remove fewer nodes, or name the nodes to remove.',
            )
        return tuple(order[:number])

    @abc.abstractmethod
    def order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return the nodes in the order in which they should be removed.

        The argument has the order of the group's rules. Leave out a node that must not be
        removed now, because its work cannot move.
        """


class DefaultScaleManager(ScaleManager):
    """Allows every node, in the order of the group's rules."""

    def order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        return nodes
