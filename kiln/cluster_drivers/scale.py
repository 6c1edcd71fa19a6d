"""Which nodes of a group go first when fewer are wanted."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kiln.cluster_drivers.values import Context
from kiln.cluster_exceptions import ClusterDriverError
from kiln.cluster_models import Cluster, Node, NodeState
from kiln.cluster_spec import NodeGroupSpec, VictimRule


class ScaleManager(abc.ABC):
    """Chooses the nodes that go, of one cluster; made anew for each choice."""

    def __init__(self, context: Context, cluster: Cluster) -> None:
        self.context = context
        self.cluster = cluster

    def victims(
        self, nodegroup: NodeGroupSpec, nodes: Sequence[Node], number: int
    ) -> tuple[Node, ...]:
        """Return the nodes that go; they are written down together with the new count.

        :param nodes: Those of the group to choose from: all of one flavor and zone,
            where there are too many of these.
        :raises ClusterDriverError: the order has nodes that were not asked about, or
            one twice.
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

        One that must not go now, because it has work that cannot move, is left out.
        """


class DefaultScaleManager(ScaleManager):
    """Goes by the rules of the group, the first of them first; every node may go."""

    def order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return the nodes in the order of the rules; of equals the younger goes first."""
        rules = nodegroup.deletion
        if VictimRule.ZONE_BALANCE not in rules:
            return sorted(nodes, key=lambda node: (_rank(node, rules), _tie(node)))
        at = rules.index(VictimRule.ZONE_BALANCE)
        ranks = {
            node.id: (_rank(node, rules[:at]), _rank(node, rules[at + 1 :])) for node in nodes
        }
        # The next always comes from the fullest zone: so within its zone a node goes
        # when as many are left as stand from it to the end.
        left = Counter(node.place.zone for node in nodes)
        fullness = {}
        for node in sorted(nodes, key=lambda node: (ranks[node.id], _tie(node))):
            fullness[node.id] = left[node.place.zone]
            left[node.place.zone] -= 1

        def turn(node: Node) -> tuple[Any, ...]:
            before, after = ranks[node.id]
            return before, -fullness[node.id], after, _tie(node)

        return sorted(nodes, key=turn)


_RANKS: dict[VictimRule, Callable[[Node], Any]] = {
    VictimRule.EXPLICIT: lambda node: not node.doomed,
    VictimRule.FAILED: lambda node: node.state is not NodeState.FAILED,
    VictimRule.UNHEALTHY: lambda node: node.state is not NodeState.UNHEALTHY,
    VictimRule.YOUNGEST: lambda node: -node.created_at,
}


def _rank(node: Node, rules: Sequence[VictimRule]) -> tuple[Any, ...]:
    return tuple(_RANKS[rule](node) for rule in rules)


def _tie(node: Node) -> tuple[float, str]:
    return -node.created_at, node.id
