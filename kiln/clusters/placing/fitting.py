"""The occupied places that can stay when both flavors and zones are counted.

Either count alone can keep the wrong node: one that blocks two others. So this is a
flow problem from flavors to zones through the existing places; the maximum flow keeps
the most nodes.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping

from kiln.clusters.placing.counts import place_order
from kiln.clusters.spec import Place

Counts = Mapping[str | None, int]


def fitting(existing: Mapping[Place, int], flavors: Counts, zones: Counts) -> dict[Place, int]:
    """Return how many nodes of each place can stay: the most that both counts allow."""
    places = sorted(existing, key=place_order)
    kept = dict.fromkeys(places, 0)
    flavor_room, zone_room = dict(flavors), dict(zones)
    while path := _path(existing, kept, flavor_room, zone_room):
        # Every second place is given up, and its flavor moves to the next zone.
        added, given_up = path[::2], path[1::2]
        amount = min(
            flavor_room[path[0].flavor],
            zone_room[path[-1].zone],
            *(existing[place] - kept[place] for place in added),
            *(kept[place] for place in given_up),
        )
        for place in added:
            kept[place] += amount
        for place in given_up:
            kept[place] -= amount
        flavor_room[path[0].flavor] -= amount
        zone_room[path[-1].zone] -= amount
    return kept


def _path(
    existing: Mapping[Place, int], kept: Mapping[Place, int], flavors: Counts, zones: Counts
) -> tuple[Place, ...]:
    """Return the shortest path from a flavor with room to a zone with room."""
    paths: dict[str | None, tuple[Place, ...]] = {
        flavor: () for flavor, room in flavors.items() if room
    }
    seen: set[str | None] = set()
    queue = collections.deque(paths)
    while queue:
        flavor = queue.popleft()
        for place in kept:
            zone = place.zone
            if place.flavor != flavor or zone in seen or existing[place] <= kept[place]:
                continue
            seen.add(zone)
            path = (*paths[flavor], place)
            if zones.get(zone):
                return path
            for other in kept:
                if other.zone == zone and kept[other] and other.flavor not in paths:
                    paths[other.flavor] = (*path, other)
                    queue.append(other.flavor)
    return ()
