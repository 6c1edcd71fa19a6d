"""The layout of one group: allowed places, nodes that can stay, and missing nodes."""

from __future__ import annotations

import collections
import heapq
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kiln.clusters.models import Node, NodeState
from kiln.clusters.placing.counts import place_order, table, zone_counts
from kiln.clusters.placing.fitting import Counts, fitting
from kiln.clusters.placing.removal_order import RemovalOrder, excess
from kiln.clusters.spec import NodeGroupSpec, Place, ZoneRule

#: The pool of nodes that are in a zone where no node is allowed.
_NOWHERE = object()
_NOBODY: Mapping[str, str] = MappingProxyType({})


class Layout:
    """A shape laid over the existing nodes.

    Explicit counts bind: only as many nodes can stay in a place as fit all counts. An even
    spread does not bind: any node of a desired flavor can stay, wherever it is.
    """

    def __init__(
        self,
        group: NodeGroupSpec,
        nodes: Iterable[Node],
        stale: Mapping[str, str] = _NOBODY,
        *,
        flavor: str | None = None,
        zones: Collection[str] = (),
    ) -> None:
        """Lay the shape of a group over nodes.

        :param stale: ids of nodes that are to be replaced, and why.
        :param flavor: the flavor of the machine, for a shape that counts no flavors.
        :param zones: all zones of the backend.
        """
        self._shape = shape = group.shape
        self._stale = stale
        self._ideal: Mapping[Place, int] = table(shape, zones, flavor=flavor)
        self._flavors = _marginal(self._ideal, 'flavor')
        self._zones: Counts = zone_counts(shape, zones)
        if shape.placements:
            self._zones = _marginal(self._ideal, 'zone')
        self._binding = bool(shape.placements) or shape.zones.rule is ZoneRule.COUNTS
        self._rooms = self._find_rooms(nodes)
        self._order = RemovalOrder(rules=group.deletion, zones=self._zones, stale=stale)

    def surplus(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes that cannot stay, in the order in which they are removed."""
        return excess(nodes, self._order, self._pool, self._rooms)

    def lacking(self, kept: Sequence[Node]) -> list[Place]:
        """Return the places of nodes to add to those kept, the largest deficit first."""
        there = collections.Counter(node.place for node in kept)
        flavors = _less(self._flavors, _marginal(there, 'flavor'))
        crowd = _marginal(there, 'zone')
        if self._binding:
            zones = _less(self._zones, crowd)
        else:
            zones = _levelled(self._zones, crowd, sum(flavors.values()))
        return _filled(flavors, zones, _less(self._ideal, there))

    def why(self, node: Node) -> str:
        """Return why a node cannot stay."""
        if not self._shape.count:
            return 'the group is to be empty'
        if not self._flavors.get(node.place.flavor):
            flavor = node.place.flavor
            return f'{f"flavor {flavor}" if flavor else "the default flavor"} is not declared'
        if self._outside(node.place.zone):
            zone = node.place.zone
            return f'zone {zone} is not declared' if zone else 'the group now names zones'
        odd = node.state in (NodeState.FAILED, NodeState.UNHEALTHY)
        reason = self._stale.get(node.id) or (node.state.value if odd else '')
        return f'one too many, and {reason}' if reason else 'one too many'

    def _outside(self, zone: str | None) -> bool:
        # A spread is over whatever zones exist. If a backend no longer lists a zone,
        # that is not a reason to move what runs there.
        if self._binding:
            return not self._zones.get(zone)
        return self._shape.zones.rule is ZoneRule.EVEN and zone not in self._zones

    def _pool(self, node: Node) -> Hashable:
        if self._binding:
            return node.place
        return _NOWHERE if self._outside(node.place.zone) else node.place.flavor

    def _find_rooms(self, nodes: Iterable[Node]) -> Mapping[Any, int]:
        if self._shape.placements:
            return self._ideal
        if not self._binding:
            return self._flavors
        there: dict[bool, collections.Counter[Place]] = {
            False: collections.Counter(),
            True: collections.Counter(),
        }
        for node in nodes:
            there[node.id in self._stale][node.place] += 1
        # A node that is to be replaced must not push out its own successor, so it
        # gets the room that the others leave.
        rooms = fitting(there[False], self._flavors, self._zones)
        flavors = _less(self._flavors, _marginal(rooms, 'flavor'))
        zones = _less(self._zones, _marginal(rooms, 'zone'))
        return collections.Counter(rooms) + collections.Counter(
            fitting(there[True], flavors, zones)
        )


def _marginal(counts: Mapping[Place, int], axis: str) -> dict[str | None, int]:
    sums: dict[str | None, int] = {}
    for place, count in counts.items():
        name = getattr(place, axis)
        sums[name] = sums.get(name, 0) + count
    return sums


def _less(counts: Mapping[Any, int], taken: Mapping[Any, int]) -> dict[Any, int]:
    return {key: count - taken.get(key, 0) for key, count in counts.items()}


def _levelled(zones: Iterable[str | None], crowd: Counts, amount: int) -> dict[str | None, int]:
    """Return how many nodes to add to each zone if each goes to the emptiest one."""
    added = dict.fromkeys(zones, 0)
    heap = [(crowd.get(zone, 0), index, zone) for index, zone in enumerate(added)]
    heapq.heapify(heap)
    for _ in range(amount):
        count, index, zone = heap[0]
        added[zone] += 1
        heapq.heapreplace(heap, (count + 1, index, zone))
    return added


def _filled(flavors: Counts, zones: Counts, deficits: Mapping[Place, int]) -> list[Place]:
    """Return places that add up to both counts, the largest deficit first.

    While a flavor lacks a node some zone does, so this never gets stuck.
    """
    flavors, zones = dict(flavors), dict(zones)
    heap = []
    for place in (Place(flavor, zone) for flavor in flavors for zone in zones):
        heap.append((-deficits.get(place, 0), place_order(place), place))
    heapq.heapify(heap)
    found = []
    while heap:
        deficit, order, place = heapq.heappop(heap)
        if flavors[place.flavor] and zones[place.zone]:
            flavors[place.flavor] -= 1
            zones[place.zone] -= 1
            found.append(place)
            heapq.heappush(heap, (deficit + 1, order, place))
    return found
