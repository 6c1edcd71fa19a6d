"""Rules about the members of a cluster; pure."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Node, NodeState

#: States of a node that has never been a member.
_NEW = frozenset(
    {
        NodeState.PLANNED,
        NodeState.BUILDING,
        NodeState.BOOTING,
        NodeState.JOINING,
        NodeState.FAILED,
    }
)


def ready(context: Context) -> Sequence[Node]:
    """Return the members at work that stay, the oldest first."""
    found = [one for one in context.nodes if one.state is NodeState.READY and not one.doomed]
    return sorted(found, key=lambda one: one.created_at)


def majority(context: Context) -> int:
    """Return the number of members that must be at work."""
    return len(context.nodes) // 2 + 1


def founds(context: Context, node: Node) -> bool:
    """Return True if a node is the first of a cluster that never had a member."""
    staying = [one for one in context.nodes if not one.doomed and not one.state.leaving]
    first = min(staying, key=lambda one: one.created_at, default=node)
    return first.id == node.id and all(one.state in _NEW for one in context.nodes)


def ending(context: Context) -> bool:
    """Return True if the whole cluster goes, so that no data has to move."""
    return all(one.doomed or one.state.leaving for one in context.nodes)
