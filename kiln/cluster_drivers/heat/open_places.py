"""Definite places for nodes whose flavor or zone is open, so that they are counted; pure.

A node of a group that set no flavor or no zone has none in the ledger. It fits any shape
that is declared later, as long as there is room for one more.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kiln.clusters.models import Node
from kiln.clusters.placing.counts import flavor_counts, place_order, zone_counts
from kiln.clusters.placing.fitting import fitting
from kiln.clusters.spec import Place, Shape


def settled(nodes: Sequence[Node], shape: Shape, flavor: str | None) -> list[Node]:
    """Return nodes at the places that they count for in a shape.

    :param flavor: The flavor of the group; nodes without one of their own have it.
    """
    if shape.placements:
        return [*_placed(nodes, shape.placements, flavor)]
    return [*_zoned([*_flavored(nodes, shape.flavors, flavor)], shape)]


def _flavored(
    nodes: Sequence[Node], flavors: Mapping[str, int], flavor: str | None
) -> Iterator[Node]:
    lacking = dict(flavors)
    for node in nodes:
        if node.place.flavor in lacking:
            lacking[node.place.flavor] -= 1
    for node in nodes:
        if not flavors:
            # All nodes follow the flavor of the group: Heat resizes them in place.
            yield _at(node, Place(None, node.place.zone))
        elif node.place.flavor is None:
            emptiest = max(sorted(lacking), key=lacking.__getitem__)
            name = flavor if flavor and flavors.get(flavor) else emptiest
            lacking[name] -= 1
            yield _at(node, Place(name, node.place.zone))
        else:
            yield node


def _zoned(nodes: Sequence[Node], shape: Shape) -> Iterator[Node]:
    lacking = zone_counts(shape)
    if None in lacking:
        # No zone is declared, so an open one is what is wanted.
        yield from nodes
        return
    # An open zone takes whatever room the others leave. The counts of flavors have the same
    # sum as those of zones, so they limit its nodes.
    there = Counter(node.place for node in nodes)
    rooms = fitting(there, flavor_counts(shape), {**lacking, None: shape.count})
    for place, count in rooms.items():
        if place.zone in lacking:
            lacking[place.zone] -= count
    later = []
    for node in nodes:
        if node.place.zone is not None:
            yield node
        elif rooms[node.place] > 0:
            rooms[node.place] -= 1
            yield _in_emptiest(node, lacking)
        else:
            later.append(node)
    # Those that cannot stay anyway must not take the zone of one that can.
    for node in later:
        yield _in_emptiest(node, lacking)


def _in_emptiest(node: Node, lacking: dict[str | None, int]) -> Node:
    zone = max(lacking, key=lacking.__getitem__)
    lacking[zone] -= 1
    return _at(node, Place(node.place.flavor, zone))


def _placed(
    nodes: Sequence[Node], placements: Mapping[Place, int], flavor: str | None
) -> Iterator[Node]:
    left = Counter(placements)
    later = []
    for node in nodes:
        if left[node.place] > 0:
            left[node.place] -= 1
            yield node
        else:
            later.append(node)
    # The least open ones first, as they have the least choice.
    for node in sorted(later, key=lambda node: [*_parts(node.place)].count(None)):
        found = [place for place in left if left[place] > 0 and _suits(node.place, place)]
        if found:
            place = min(
                found, key=lambda one: (one.flavor != flavor, -left[one], place_order(one))
            )
            left[place] -= 1
            yield _at(node, place)
        else:
            yield node


def _suits(place: Place, wanted: Place) -> bool:
    return all(
        mine in (None, its) for mine, its in zip(_parts(place), _parts(wanted), strict=True)
    )


def _parts(place: Place) -> tuple[str | None, str | None]:
    return place.flavor, place.zone


def _at(node: Node, place: Place) -> Node:
    return dataclasses.replace(node, place=place)
