"""The choice of nodes that a driver makes with its scale manager, for the planner; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence

from kiln.clusters.models import Node, NodeState
from kiln.clusters.spec import Place
from kiln.engine.plan.changes import GroupPlan

#: A node in such a state does no work, so its replacement needs no consent.
_DEAD = frozenset({NodeState.FAILED, NodeState.UNHEALTHY})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Which nodes go, where more than one could; by default the group's rules decide alone."""

    #: Ids of nodes that a plan has shown: they go before other nodes of their place.
    shown: tuple[str, ...] = ()
    #: Ids of the nodes that the driver lets go now without a successor, in its order, and of
    #: those that it lets be replaced; None if the driver has no scale manager.
    removed: tuple[str, ...] | None = None
    replaced: tuple[str, ...] | None = None

    def exchanged(
        self, surplus: Sequence[Node], kept: Sequence[Node], stale: Collection[str]
    ) -> tuple[list[Node], list[Node]]:
        """Return the nodes to remove and to keep: as many of each place as the rules have it.

        An outdated node is never exchanged for another one, or an upgrade would not end.
        """
        order = (*self.shown, *(self.removed or ()), *(self.replaced or ()))
        if not order or not surplus:
            return list(surplus), list(kept)
        ranks = {one: rank for rank, one in enumerate(dict.fromkeys(order))}
        others = [one for one in kept if one.state is not NodeState.UNKNOWN]
        alike: dict[tuple[Place, bool], list[Node]] = {}
        for node in (*surplus, *others):
            alike.setdefault((node.place, node.id in stale), []).append(node)
        for nodes in alike.values():
            # Stable: nodes without a rank keep the order of the rules, the surplus first.
            nodes.sort(key=lambda node: ranks.get(node.id, len(ranks)))
        chosen = [alike[node.place, node.id in stale].pop(0) for node in surplus]
        ids = {node.id for node in chosen}
        return chosen, [node for node in (*kept, *surplus) if node.id not in ids]

    def holds_removal(self, node: Node) -> bool:
        """Return whether the driver does not let a node go without a successor."""
        return self.removed is not None and node.id not in self.removed

    def holds_replacement(self, node: Node) -> bool:
        """Return whether the driver does not let a node be replaced."""
        return (
            self.replaced is not None and node.state not in _DEAD and node.id not in self.replaced
        )

    def replacement_rank(self, node: Node) -> int:
        """Return the place of a node in the order of replacement."""
        order = self.replaced or ()
        return order.index(node.id) if node.id in order else len(order)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question for a scale manager: which of some nodes can go."""

    group: str
    #: In the order of the group's rules; any of them suits the plan.
    nodes: tuple[Node, ...]
    #: How many of them are to go.
    number: int
    #: True if each has a successor, or gets one.
    replaced: bool = False


def questions(plan: GroupPlan, shown: Sequence[str] = ()) -> Iterator[Question]:
    """Yield the questions about a plan in which all choices are held.

    :param shown: ids of the nodes that were chosen when the plan was shown.
    """
    surplus: dict[Place, list[Node]] = {}
    replaced: list[Node] = []
    for change in plan.removes:
        if change.held and change.succeeded:
            replaced.append(change.node)
        elif change.held:
            surplus.setdefault(change.node.place, []).append(change.node)
    for place, nodes in surplus.items():
        number = len(nodes)
        if not all(node.id in shown for node in nodes):
            keeps = [one.node for one in plan.keeps if one.node.place == place]
            keeps = [node for node in keeps if node.state is not NodeState.UNKNOWN]
            nodes = [*nodes, *sorted(keeps, key=lambda node: -node.created_at)]
        yield Question(group=plan.group, nodes=tuple(nodes), number=number)
    replaced += (change.node for change in plan.replaces if change.held)
    if replaced:
        yield Question(
            group=plan.group, nodes=tuple(replaced), number=len(replaced), replaced=True
        )


def all_held(shown: Sequence[str] = ()) -> Choice:
    """Return the choice of a driver that has not been asked."""
    return Choice(shown=tuple(shown), removed=(), replaced=())
