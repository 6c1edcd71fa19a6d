"""Group shape: counts, flavors, zones and placements, checked for one total."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.clusters.spec import MOST_NODES, Place, ZoneRule, Zones
from kiln.yaml_schema.container_checks import Counts, ListOf
from kiln.yaml_schema.mapping_checks import Field, Found, Record
from kiln.yaml_schema.mistake_list import Mistakes, close_to
from kiln.yaml_schema.nodes import Node, shown
from kiln.yaml_schema.value_checks import WRONG, Kind, Text, Whole, Wrong

#: Names of a count in other tools.
COUNT_ELSEWHERE = ('node_count', 'replicas', 'nodes', 'number', 'quantity')


class ZonesKind(Kind[Zones]):
    """A rule, a list of zones, or node counts by zone."""

    words = 'spread, or zones such as [az1, az2], or counts such as {az1: 8, az2: 7}'

    _names = ListOf(Text('the name of a zone'), words, least=1)
    _counts = Counts(MOST_NODES, words)

    def _read(self, node: Node, mistakes: Mistakes) -> Zones | Wrong:
        match node.value:
            case ZoneRule.ANY.value | ZoneRule.SPREAD.value as rule:
                return Zones(rule=ZoneRule(rule))
            case tuple():
                names = self._names.read(node, mistakes)
                return (
                    WRONG if isinstance(names, Wrong) else Zones(rule=ZoneRule.EVEN, names=names)
                )
            case Mapping():
                counts = self._counts.read(node, mistakes)
                if isinstance(counts, Wrong):
                    return WRONG
                return Zones(rule=ZoneRule.COUNTS, counts=counts)
            case str(word):
                close = close_to(word, (ZoneRule.ANY, ZoneRule.SPREAD))
                better = f'did you mean {close}?' if close else f'for one zone write [{word}]'
                mistakes.add(node, f'{shown(word)} is not a rule; write {self.words} ({better})')
                return WRONG
        return self._refuse(node, mistakes)

    def write(self, value: Zones) -> str | list[str] | dict[str, int]:
        match value.rule:
            case ZoneRule.EVEN:
                return list(value.names)
            case ZoneRule.COUNTS:
                return dict(value.counts)
            case rule:
                return rule.value

    def schema(self) -> dict[str, Any]:
        rules = {'enum': [ZoneRule.ANY.value, ZoneRule.SPREAD.value]}
        return {'anyOf': [rules, self._names.schema(), self._counts.schema()]}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Placed:
    flavor: str
    zone: str
    count: int


_PLACED = Record(
    _Placed,
    'an entry of placements',
    Field(name='flavor', kind=Text('a flavor'), required=True, help='The flavor of these nodes.'),
    Field(name='zone', kind=Text('a zone'), required=True, help='The zone of these nodes.'),
    Field(
        name='count',
        kind=Whole(0, MOST_NODES),
        required=True,
        help='Number of these nodes.',
        also=COUNT_ELSEWHERE,
    ),
)


class Placements(Kind[Mapping[Place, int]]):
    """Node counts by flavor and zone."""

    words = 'a list such as [{flavor: x, zone: az1, count: 3}]'
    entry = _PLACED
    _entries = ListOf(_PLACED, words, least=1, unique=False)

    def _read(self, node: Node, mistakes: Mistakes) -> Mapping[Place, int] | Wrong:
        entries = self._entries.read(node, mistakes)
        if isinstance(entries, Wrong):
            return WRONG
        counts: dict[Place, int] = {}
        assert isinstance(node.value, tuple)
        for one, where in zip(entries, node.value, strict=True):
            place = Place(one.flavor, one.zone)
            if place in counts:
                mistakes.add(
                    where,
                    f'flavor {shown(one.flavor)} in zone {shown(one.zone)} is already listed; '
                    f'write it once, with the sum',
                )
            counts[place] = one.count
        return MappingProxyType(counts)

    def write(self, value: Mapping[Place, int]) -> list[Any]:
        return [
            {'flavor': place.flavor, 'zone': place.zone, 'count': count}
            for place, count in value.items()
        ]

    def schema(self) -> dict[str, Any]:
        return self._entries.schema()


def settle_shape(group: Found) -> None:
    """Determine the count of a group, or record why it cannot be determined."""
    _one_way(group)
    sums = _sums(group.values)
    if len(set(sums.values())) > 1:
        first, *others = (f'{name} {verb} {number}' for (name, verb), number in sums.items())
        name = list(sums)[-1][0]
        group.mistakes.add(
            group.at(name),
            f'{first}, but {" and ".join(others)}; make the numbers equal',
        )
    elif sums:
        group.values['count'] = next(iter(sums.values()))
        _within_bounds(group)
    elif not any(group.given(name) for name in ('count', 'flavors', 'placements')):
        zones = group.values.get('zones')
        if zones is not None or not group.given('zones'):
            group.mistakes.add(group.node, 'count is missing; write the number of nodes')


def _one_way(group: Found) -> None:
    if group.given('placements'):
        for name in ('flavor', 'flavors', 'zones'):
            if group.given(name):
                group.mistakes.add(
                    group.at(name), f'placements already define the {name}; remove one of the two'
                )
    elif group.given('flavor') and group.given('flavors'):
        group.mistakes.add(
            group.at('flavor'), 'flavors already define the flavor; remove one of the two'
        )


def _sums(values: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Return the number of nodes by the key that defines it."""
    sums = {}
    if 'count' in values:
        sums['count', 'is'] = values['count']
    if 'placements' in values:
        said = {'placements': values['placements']}
    else:
        said = {'flavors': values.get('flavors'), 'zones': values.get('zones', Zones()).counts}
    for name, counts in said.items():
        if counts:
            sums[name, 'add up to'] = sum(counts.values())
    return sums


def _within_bounds(group: Found) -> None:
    count = group.values['count']
    least, most = group.values.get('min_count', 0), group.values.get('max_count')
    if count > MOST_NODES:
        group.mistakes.add(group.node, f'the group has {count} nodes; write at most {MOST_NODES}')
    if most is not None and least > most:
        group.mistakes.add(
            group.at('max_count'),
            f'max_count is {most}, less than min_count, which is {least}; write {least} or more',
        )
    elif count < least:
        group.mistakes.add(
            group.at('min_count'),
            f'min_count is {least}, but the group has {count}; write {count} or fewer',
        )
    elif most is not None and count > most:
        group.mistakes.add(
            group.at('max_count'),
            f'max_count is {most}, but the group has {count}; write {count} or more',
        )


def shorten_shape(written: dict[str, Any]) -> None:
    """Remove the count from written data if other counts imply it."""
    if 'flavors' in written or 'placements' in written or isinstance(written.get('zones'), dict):
        del written['count']
