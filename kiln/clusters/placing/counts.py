"""Node counts by flavor and zone: exact, and the same on every platform.

All counting is in whole numbers, so that rounding does not differ between platforms;
ties go to the earlier name.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from kiln.clusters.exceptions import InvalidCluster, Problem
from kiln.clusters.spec import MOST_NODES, NodeGroupSpec, Place, Shape, ZoneRule, Zones

Key = TypeVar('Key')


def place_order(place: Place) -> tuple[str, str]:
    """Return the sort key of a place; an open flavor or zone comes first."""
    return place.flavor or '', place.zone or ''


def shares(amount: int, weights: Sequence[int]) -> list[int]:
    """Split an amount in proportion to weights, by largest remainder.

    No share exceeds its weight if the amount does not exceed their sum. Weights that are
    all zero count as equal.
    """
    whole = sum(weights)
    if not whole:
        weights, whole = [1] * len(weights), len(weights)
    parts = [divmod(amount * weight, whole) for weight in weights]
    found = [quotient for quotient, _ in parts]
    by_remainder = sorted(range(len(parts)), key=lambda index: -parts[index][1])
    for index in by_remainder[: amount - sum(found)]:
        found[index] += 1
    return found


def flavor_counts(shape: Shape, flavor: str | None = None) -> dict[str | None, int]:
    """Return the desired number of nodes of each flavor, by name.

    :param flavor: the flavor of the machine, for a shape that counts no flavors.
    """
    return dict(sorted(shape.flavors.items())) or {flavor: shape.count}


def zone_counts(shape: Shape, zones: Iterable[str] = ()) -> dict[str | None, int]:
    """Return the desired number of nodes in each zone.

    Zones that are named without counts keep their order, so their author decides which
    zones get the remainder.

    :param zones: all zones of the backend; if none are known, the zone is left open.
    """
    rule = shape.zones.rule
    if rule is ZoneRule.COUNTS:
        return dict(sorted(shape.zones.counts.items()))
    names: list[str | None] = []
    if rule is ZoneRule.EVEN:
        names = list(dict.fromkeys(shape.zones.names))
    elif rule is ZoneRule.SPREAD:
        names = [*sorted(set(zones))]
    names = names or [None]
    return dict(zip(names, shares(shape.count, [1] * len(names)), strict=True))


def joint(flavors: Mapping[str | None, int], zones: Mapping[str | None, int]) -> dict[Place, int]:
    """Return counts of places that add up to the counts of both flavors and zones.

    Works flavor by flavor, in proportion to what each zone still lacks: no zone gets more
    than that, and the last flavor finds exactly its room.
    """
    lacking, found = dict(zones), {}
    for flavor, count in flavors.items():
        parts = shares(count, list(lacking.values()))
        for zone, part in zip(list(lacking), parts, strict=True):
            lacking[zone] -= part
            if part:
                found[Place(flavor, zone)] = part
    return found


def table(
    shape: Shape, zones_of_backend: Iterable[str] = (), *, flavor: str | None = None
) -> Mapping[Place, int]:
    """Return how many nodes of a new group go to each place.

    Depends only on its arguments, and not on the order of counts.

    :param flavor: the flavor of the machine, for a shape that counts no flavors.
    :raises InvalidCluster: the counts of the shape do not add up to its count.
    """
    _add_up(shape)
    if shape.placements:
        by_place = sorted(shape.placements.items(), key=lambda item: place_order(item[0]))
        return MappingProxyType({place: count for place, count in by_place if count})
    zones = zone_counts(shape, zones_of_backend)
    return MappingProxyType(joint(flavor_counts(shape, flavor), zones))


def _add_up(shape: Shape) -> None:
    given: dict[str, Mapping[Any, int]] = {
        'flavors': shape.flavors,
        'zones': shape.zones.counts,
        'placements': shape.placements,
    }
    problems = [
        Problem(
            path=name,
            message=f'{name} add up to {sum(counts.values())}, not to {shape.count}: '
            'correct one of them.',
        )
        for name, counts in given.items()
        if counts and sum(counts.values()) != shape.count
    ]
    if problems:
        raise InvalidCluster(problems)


def resized(shape: Shape, count: int, removed: Sequence[Place] = ()) -> Shape:
    """Return a shape with another count, in proportions as close as possible.

    Only the difference is distributed, so no count shrinks because the whole grows. If
    nodes are removed, their own flavors and zones lose the difference first.

    :raises InvalidCluster: the count is below zero.
    """
    if count < 0:
        raise InvalidCluster([Problem(path='count', message=f'{count} is below zero.')])
    off = removed[: max(0, shape.count - count)]
    zones = _scaled(shape.zones.counts, count, [place.zone for place in off])
    return Shape(
        count=count,
        flavors=_scaled(shape.flavors, count, [place.flavor for place in off]),
        zones=dataclasses.replace(shape.zones, counts=zones),
        placements=_scaled(shape.placements, count, off),
    )


def _scaled(counts: Mapping[Key, int], total: int, off: Iterable[Key | None]) -> Mapping[Key, int]:
    if not counts:
        return counts
    left = dict(counts)
    for key in off:
        if key is not None and left.get(key, 0):
            left[key] -= 1
    names = sorted(left, key=_name_order)
    change = total - sum(left.values())
    for name, part in zip(names, shares(abs(change), [left[name] for name in names]), strict=True):
        left[name] += part if change > 0 else -part
    return MappingProxyType(left)


def _name_order(key: object) -> tuple[str, str]:
    return place_order(key) if isinstance(key, Place) else (str(key), '')


def check_count(group: NodeGroupSpec, count: int) -> tuple[Problem, ...]:
    """Return what is wrong with a count for a group; nothing if it is allowed."""
    most = group.max_count
    if count < group.min_count:
        bound = f'fewer than its min_count of {group.min_count}'
    elif most is not None and count > most:
        bound = f'more than its max_count of {most}'
    elif count > MOST_NODES:
        bound = f'more than the {MOST_NODES} of the largest group'
    else:
        return ()
    message = f'Group {group.name} cannot have {count} nodes, {bound}. Change one of them.'
    return (Problem(path=f'nodegroups[{group.name}].count', message=message),)


def from_index_maps(az_map: Mapping[str, str], flavor_map: Mapping[str, str]) -> Shape:
    """Return the shape of a group that was written as one map per property, by index.

    Stacks of OpenStack's Heat describe unlike nodes like that. The indexes have no meaning
    here: nodes have ids, and any of them can be removed. An empty map leaves its property
    open.

    :raises InvalidCluster: an index is in only one of the maps.
    """
    if not (az_map and flavor_map):
        flavors, counts = _tally(flavor_map.values()), _tally(az_map.values())
        zones = Zones(rule=ZoneRule.COUNTS, counts=counts) if counts else Zones()
        return Shape(count=len(az_map) + len(flavor_map), flavors=flavors, zones=zones)
    problems = [
        Problem(path=name, message=f'Index {index} has no entry here, but one in {other}: add it.')
        for name, mapping, other, reference in (
            ('az_map', az_map, 'flavor_map', flavor_map),
            ('flavor_map', flavor_map, 'az_map', az_map),
        )
        for index in sorted(reference.keys() - mapping.keys())
    ]
    if problems:
        raise InvalidCluster(problems)
    places = (Place(flavor_map[index], az_map[index]) for index in az_map)
    return Shape(count=len(az_map), placements=_tally(sorted(places, key=place_order)))


def _tally(keys: Iterable[Key]) -> Mapping[Key, int]:
    return MappingProxyType(collections.Counter(keys))
