"""The order of removal when there are more nodes than desired."""

from __future__ import annotations

import collections
import dataclasses
import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from kiln.clusters.models import Node, NodeState
from kiln.clusters.spec import VictimRule


@dataclasses.dataclass(frozen=True, kw_only=True)
class RemovalOrder:
    """The order in which nodes of a group are removed; of equals the lower id goes first."""

    rules: Sequence[VictimRule]
    #: The desired number of nodes by zone; for ``ZONE_BALANCE``.
    zones: Mapping[str | None, int]
    #: Ids of nodes that are to be replaced anyway: they go before all others.
    stale: Collection[str] = ()

    def rank(self, node: Node, crowd: Mapping[str | None, int]) -> tuple[Any, ...]:
        """Return the sort key of a node, given the number of nodes in each zone."""
        # An UNKNOWN node might work, so it is the last resort: removing it would be acting
        # on a state that is not known.
        rank: list[Any] = [node.id not in self.stale, node.state is NodeState.UNKNOWN]
        for rule in self.rules:
            if rule is VictimRule.FAILED:
                rank.append(node.state is not NodeState.FAILED)
            elif rule is VictimRule.UNHEALTHY:
                rank.append(node.state is not NodeState.UNHEALTHY)
            elif rule is VictimRule.ZONE_BALANCE:
                zone = node.place.zone
                rank.append(self.zones.get(zone, 0) - crowd[zone])
            elif rule is VictimRule.YOUNGEST:
                rank.append(-node.created_at)
            # Nodes requested by name are removed before this order applies.
        return (*rank, node.id)


def excess(
    nodes: Iterable[Node],
    order: RemovalOrder,
    pool_of: Callable[[Node], Hashable],
    rooms: Mapping[Any, int],
) -> list[Node]:
    """Return the nodes that find no room in their pool, in the order of removal.

    A pool is a set of nodes, any of which can stay; a pool without an entry has no room.
    """
    crowd: collections.Counter[str | None] = collections.Counter()
    queues: dict[tuple[Hashable, str | None], list[Node]] = collections.defaultdict(list)
    over: dict[Hashable, int] = {}
    for node in nodes:
        pool, zone = pool_of(node), node.place.zone
        crowd[zone] += 1
        over[pool] = over.get(pool, -rooms.get(pool, 0)) + 1
        queues[pool, zone].append(node)
    heap = []
    for key, queue in queues.items():
        if over[key[0]] > 0:
            queue.sort(key=lambda node: order.rank(node, crowd), reverse=True)
            heap.append((order.rank(queue[-1], crowd), key))
    heapq.heapify(heap)
    return list(_taken(heap, queues, over, crowd, order))


def _taken(
    heap: list[tuple[tuple[Any, ...], tuple[Hashable, str | None]]],
    queues: Mapping[tuple[Hashable, str | None], list[Node]],
    over: dict[Hashable, int],
    crowd: collections.Counter[str | None],
    order: RemovalOrder,
) -> Iterable[Node]:
    while heap:
        was, key = heapq.heappop(heap)
        queue, (pool, zone) = queues[key], key
        if not over[pool]:
            continue
        # Each removed node makes its zone less crowded, so the rank in the heap can be too
        # early by now, but never too late.
        rank = order.rank(queue[-1], crowd)
        if rank == was:
            yield queue.pop()
            over[pool] -= 1
            crowd[zone] -= 1
            if not queue:
                continue
            rank = order.rank(queue[-1], crowd)
        heapq.heappush(heap, (rank, key))
