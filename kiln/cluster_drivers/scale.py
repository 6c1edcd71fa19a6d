"""Scale managers: a driver's choice of the nodes that are removed or replaced."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence

from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError, RemovalRefused
from kiln.clusters.models import Cluster, Node
from kiln.clusters.spec import NodeGroupSpec


class ScaleManager(abc.ABC):
    """Decides which nodes of one cluster go; created for each question.

    Asked before ``kiln up``, ``cluster scale`` or ``node remove`` changes anything, and again
    by the engine before nodes go. Not asked if the cluster is deleted, if the user forces
    the removal of a named node, or before kiln replaces a node that has failed or is
    unhealthy. In ``context.nodes`` a node that goes already has a reason in ``doomed``, also
    a node that was chosen by the question before. An answer has a deadline: see
    :func:`kiln.clock.current_deadline`.
    """

    def __init__(self, context: Context, cluster: Cluster) -> None:
        self.context = context
        self.cluster = cluster

    def victims(
        self, nodegroup: NodeGroupSpec, nodes: Sequence[Node], number: int
    ) -> tuple[Node, ...]:
        """Return the nodes to remove; they are stored together with the new count.

        :param nodes: The nodes to choose from, in the order of the group's rules: all nodes of
            a flavor and zone that has too many, or the nodes that a user named.
        :raises RemovalRefused: the driver returns too few nodes.
        :raises ClusterDriverError: it returns other nodes.
        """
        order = checked_order(self.order, nodegroup, nodes)
        if len(order) < number:
            raise RemovalRefused(
                f'Cannot remove {number} of the nodes of group {nodegroup.name}: the driver '
                f'allows {len(order) or "none"} now.',
                f"{'Remove fewer nodes. ' if order else ''}'kiln node remove --force' removes a "
                f'node that the driver does not allow.',
            )
        return order[:number]

    @abc.abstractmethod
    def order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return the nodes in the order in which they should be removed.

        The argument has the order of the group's rules. Leave out a node that must not be
        removed now, because its work cannot move.

        :param nodegroup: The group as it is to be; empty if it is dropped.
        """

    def replacement_order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return the nodes in the order in which they should be replaced; by default as given.

        Asked in each round of an upgrade or a replacement, about the nodes that still have to
        be replaced. The strategy of the group decides when the next one can go; leave out a
        node that must stay in this round.
        """
        return nodes


class DefaultScaleManager(ScaleManager):
    """Allows every node, in the order of the group's rules."""

    def order(self, nodegroup: NodeGroupSpec, nodes: Sequence[Node]) -> Sequence[Node]:
        return nodes


def checked_order(
    order: Callable[[NodeGroupSpec, Sequence[Node]], Sequence[Node]],
    nodegroup: NodeGroupSpec,
    nodes: Sequence[Node],
) -> tuple[Node, ...]:
    """Return the answer of a scale manager.

    :raises ClusterDriverError: it names a node twice, or a node that was not in question.
    """
    answer = tuple(order(nodegroup, nodes))
    ids = {node.id for node in answer}
    if len(ids) != len(answer) or not ids <= {node.id for node in nodes}:
        raise ClusterDriverError(
            f'Cannot choose the nodes to remove from group {nodegroup.name}: the driver '
            f'names nodes outside the choice, or a node twice.',
            'This is a mistake in the driver: report it to its author.',
        )
    return answer
