"""Ledger of the nodes of a cluster: which numbers exist, and where; pure.

A number is never given twice, so any node can go, from the middle too, and a name means
one node for ever. The ledger is part of the driver's data about the cluster.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from kiln.cluster_drivers.heat.state import StackState
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster
from kiln.clusters.spec import ClusterSpec, NodeGroupSpec, Place, Shape, ZoneRule


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
        :raises ClusterDriverError: there is no node of a name.
        """
        known = {node.name for node in self.nodes}
        already = set(self.removed) if self.generation == generation else set()
        if unknown := [name for name in remove if name not in known | already]:
            raise ClusterDriverError(f'The cluster has no node {", ".join(unknown)}.')
        nodes: list[LedgerNode] = []
        last = dict(self.last)
        for group in spec.groups:
            kept = _kept(self.of(group.name), group.shape, remove)
            nodes += kept
            series = '' if one_series else group.name
            for place in _missing(kept, group.shape):
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


def places(shape: Shape) -> Sequence[Place]:
    """Return the place of each node of a shape, the same for each call."""
    if shape.placements:
        ordered = sorted(shape.placements.items(), key=lambda one: str(one[0]))
        return [place for place, count in ordered for _ in range(count)]
    flavors: list[str | None] = [
        name for name, count in sorted(shape.flavors.items()) for _ in range(count)
    ]
    return [
        Place(flavor, zone)
        for flavor, zone in itertools.zip_longest(
            flavors or [None] * shape.count, _zones(shape, shape.count)
        )
    ]


def misplaced(group: NodeGroupSpec) -> str:
    """Return why the places of a group cannot be said to Heat; empty if they can."""
    if group.shape.zones.rule is ZoneRule.SPREAD:
        return 'Heat does not tell which zones there are: name them, or set no zones'
    return ''


def _zones(shape: Shape, count: int) -> list[str | None]:
    zones = shape.zones
    if zones.rule is ZoneRule.COUNTS:
        # In turn, so that the nodes of each flavor get to each zone.
        left, found = Counter(zones.counts), []
        while +left:
            for name in sorted(+left):
                left[name] -= 1
                found.append(name)
        return [*found]
    if zones.rule is ZoneRule.EVEN and zones.names:
        return [*itertools.islice(itertools.cycle(zones.names), count)]
    return [None] * count


def _kept(
    members: Sequence[LedgerNode], shape: Shape, remove: Collection[str]
) -> list[LedgerNode]:
    """Return the nodes that stay: for each place the oldest, as many as it is to have."""
    left = Counter(places(shape))
    kept = []
    for node in members:
        if node.name not in remove and left[node.place] > 0:
            left[node.place] -= 1
            kept.append(node)
    return kept


def _missing(kept: Sequence[LedgerNode], shape: Shape) -> Iterator[Place]:
    left = Counter(places(shape))
    left.subtract(node.place for node in kept)
    for place in places(shape):
        if left[place] > 0:
            left[place] -= 1
            yield place
