"""Ledger of the nodes of a cluster: which numbers exist, and where; pure.

A number is never given twice, so any node can go, from the middle too, and a name means
one node for ever. The ledger is part of the driver's data about the cluster.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kiln.cluster_drivers.heat.open_places import settled
from kiln.cluster_drivers.heat.state import StackState
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster, Node, NodeState
from kiln.clusters.placing.layout import Layout
from kiln.clusters.spec import (
    ClusterSpec,
    NodeGroupSpec,
    Place,
    VictimRule,
    ZoneRule,
    effective,
)


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerNode:
    """A node: its group, its number in the group, and its place."""

    group: str
    number: int
    place: Place

    @property
    def name(self) -> str:
        """The name of the node, and of its resource in the stack."""
        return node_name(self.group, self.number)

    def as_node(self) -> Node:
        """Return it as kiln's planner takes it; what only Heat knows of it is left out."""
        return Node(
            id=self.name,
            cluster_id='',
            group=self.group,
            name=self.name,
            place=self.place,
            backend='',
            state=NodeState.READY,
            created_at=float(self.number),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """The nodes of a cluster, and the last number of each series."""

    nodes: tuple[LedgerNode, ...] = ()
    last: Mapping[str, int] = dataclasses.field(default_factory=dict)
    #: The nodes that were named to be removed, and the generation for which they were.
    removed: tuple[str, ...] = ()
    generation: int = 0

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Ledger:
        """Return the ledger in plain data; empty without any."""
        return cls(
            nodes=tuple(
                LedgerNode(group, number, Place(flavor, zone))
                for group, members in kept.get('groups', {}).items()
                for number, flavor, zone in members
            ),
            last=dict(kept.get('last', {})),
            removed=tuple(kept.get('removed', ())),
            generation=kept.get('generation', 0),
        )

    def write(self) -> dict[str, Any]:
        """Return the ledger as plain data; nothing as long as no number was given."""
        if not self.last:
            return {}
        groups: dict[str, list[list[Any]]] = {}
        for node in self.nodes:
            place = [node.place.flavor, node.place.zone]
            groups.setdefault(node.group, []).append([node.number, *place])
        return {
            'groups': groups,
            'last': dict(self.last),
            'removed': list(self.removed),
            'generation': self.generation,
        }

    def of(self, group: str) -> tuple[LedgerNode, ...]:
        """Return the nodes of a group, the oldest first."""
        return tuple(node for node in self.nodes if node.group == group)

    def free(self, group: str) -> list[int]:
        """Return the numbers that no node of a group has, up to its last one; 0 is such a one."""
        taken = {node.number for node in self.of(group)}
        return [number for number in range(self.last.get(group, 0) + 1) if number not in taken]

    def counted(self, spec: ClusterSpec) -> list[Node]:
        """Return the nodes of the declared groups, at the places that they count for."""
        return [
            node
            for group in spec.groups
            for node in settled(
                [one.as_node() for one in self.of(group.name)], group.shape, _flavor(spec, group)
            )
        ]

    def changed(
        self,
        spec: ClusterSpec,
        generation: int,
        remove: Sequence[str],
        *,
        one_series: bool = False,
    ) -> Ledger:
        """Return the ledger for what a cluster is to be, without the nodes that are named.

        The same again if it is called with its result: a change can be repeated.

        :param one_series: All groups share one series of numbers; else each has its own.
        :raises ClusterDriverError: there is no node of a name, or another node would be replaced.
        """
        known = {node.name for node in self.nodes}
        already = set(self.removed) if self.generation == generation else set()
        if unknown := [name for name in remove if name not in known | already]:
            raise ClusterDriverError(f'The cluster has no node {", ".join(unknown)}.')
        nodes: list[LedgerNode] = []
        last = dict(self.last)
        for group in spec.groups:
            survivors = [node for node in self.of(group.name) if node.name not in remove]
            kept, missing = _laid_out(survivors, group, _flavor(spec, group))
            if remove:
                _check_kept(survivors, kept, group, remove)
            nodes += kept
            series = '' if one_series else group.name
            for place in missing:
                last[series] = last.get(series, 0) + 1
                nodes.append(LedgerNode(group.name, last[series], place))
        return Ledger(
            nodes=tuple(nodes),
            last=last,
            removed=tuple(sorted({*remove, *already})),
            generation=generation,
        )


def node_name(group: str, number: int | str) -> str:
    """Return the name of the node of a group that has a number."""
    return f'{group}-{number}'


def ledger_of(cluster: Cluster) -> Ledger:
    """Return the ledger of a cluster, as it was planned last."""
    return Ledger.read(StackState.read(cluster.driver_state).nodes)


def difference(there: Collection[str], expected: Collection[str]) -> str:
    """Return which nodes a stack has in place of those of its ledger; empty if it has them."""
    more, less = set(there) - set(expected), set(expected) - set(there)
    if not more and not less:
        return ''
    names = [', '.join(sorted(names)) for names in (more, less)]
    return f'The stack has {names[0] or "no others"}, and lacks {names[1] or "none"}.'


def misplaced(group: NodeGroupSpec) -> str:
    """Return why the places of a group cannot be said to Heat; empty if they can."""
    if group.shape.zones.rule is ZoneRule.SPREAD:
        return 'Heat does not tell which zones there are: name them, or set no zones'
    return ''


def _flavor(spec: ClusterSpec, group: NodeGroupSpec) -> str | None:
    return effective(cluster=spec.machine, group=group.machine).machine.flavor


def _laid_out(
    survivors: Sequence[LedgerNode], group: NodeGroupSpec, flavor: str | None
) -> tuple[list[LedgerNode], list[Place]]:
    """Return the nodes that stay, with their present flavors, and the places of missing ones."""
    # The youngest go first of nodes that are equal by the rules of the group.
    group = dataclasses.replace(group, deletion=(*group.deletion, VictimRule.YOUNGEST))
    nodes = settled([node.as_node() for node in survivors], group.shape, flavor)
    layout = Layout(group, nodes)
    gone = {node.id for node in layout.surplus(nodes)}
    staying = {node.name: node for node in nodes if node.id not in gone}
    kept = [
        # Its zone stays as it was, even an open one: Heat replaces a server for another zone.
        # The flavor of the group is kept, so that it is known once the group counts flavors.
        dataclasses.replace(
            node, place=Place(staying[node.name].place.flavor or flavor, node.place.zone)
        )
        for node in survivors
        if node.name in staying
    ]
    missing = [
        Place(place.flavor or flavor, place.zone) for place in layout.lacking([*staying.values()])
    ]
    return kept, _in_turn(missing)


def _in_turn(places: Sequence[Place]) -> list[Place]:
    """Return places by flavor; the zones of a flavor take turns."""
    before: Counter[Place] = Counter()
    turns = []
    for place in places:
        turns.append((place.flavor or '', before[place], place))
        before[place] += 1
    return [place for *_, place in sorted(turns, key=lambda turn: turn[:2])]


def _check_kept(
    survivors: Sequence[LedgerNode],
    kept: Sequence[LedgerNode],
    group: NodeGroupSpec,
    remove: Sequence[str],
) -> None:
    """Refuse a removal with which nodes that nobody named would be replaced."""
    needed = max(0, len(survivors) - group.shape.count)
    lost = [node.name for node in survivors if node.name not in {one.name for one in kept}]
    if len(lost) > needed:
        raise ClusterDriverError(
            f'Cannot remove {", ".join(remove)} alone: what is declared for group {group.name} '
            f'would also remove {", ".join(lost)}.',
            'Declare flavors and zones that fit the nodes that are to stay.',
        )
