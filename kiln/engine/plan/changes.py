"""Plans: the changes to a cluster and their reasons, as frozen values."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.clusters.exceptions import Problem
from kiln.clusters.models import Node
from kiln.clusters.spec import NodeGroupSpec, Place, Strategy

#: Nodes that a line names; the others are only counted.
_NAMED = 3


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DesiredGroup:
    """The desired state of a group, with all defaults filled in."""

    group: NodeGroupSpec
    #: The flavor of its machine, for a shape that counts no flavors.
    flavor: str | None = None
    #: All zones of its backend; empty if they are unknown.
    zones: tuple[str, ...] = ()
    #: The digest of the spec that its nodes are built from; empty: nothing is outdated.
    made_with: str = ''


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Add:
    """A node is to be built that replaces no other."""

    place: Place
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Remove:
    """A node is to be removed without a replacement."""

    node: Node
    reason: str
    #: True if this node was requested by name, so no other node has to be ready for it.
    named: bool = False
    #: True if a successor was built for it already.
    succeeded: bool = False
    #: True while the driver's scale manager does not let it go.
    held: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Replace:
    """A node is to be removed, and another one built for it."""

    node: Node
    #: The place of the new node.
    place: Place
    reason: str
    #: True while the driver's scale manager does not let it go.
    held: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Keep:
    """A node stays; the reason names what is unusual about it, if anything."""

    node: Node
    reason: str = ''


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class GroupPlan:
    """The changes to one group."""

    group: str
    role: str
    #: The desired number of nodes.
    count: int
    strategy: Strategy
    #: The number of nodes of each place once all is done.
    table: Mapping[Place, int]
    adds: tuple[Add, ...] = ()
    replaces: tuple[Replace, ...] = ()
    removes: tuple[Remove, ...] = ()
    keeps: tuple[Keep, ...] = ()
    #: Nodes that are already being removed, so nothing is decided for them.
    leaving: tuple[Node, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def empty(self) -> bool:
        """True if nothing is to change."""
        return not (self.adds or self.replaces or self.removes)

    @property
    def live(self) -> tuple[Node, ...]:
        """The nodes that are not being removed already."""
        changes: Sequence[Remove | Replace | Keep] = (*self.removes, *self.replaces, *self.keeps)
        return tuple(change.node for change in changes)

    def lines(self) -> Iterator[str]:
        """Yield the changes for people, one line for all that are alike."""
        for place, reason, nodes in _alike((add.place, add.reason, None) for add in self.adds):
            yield f'{self.group}: +{len(nodes)} {where(place)} ({reason})'
        for (old, new), reason, nodes in _alike(
            ((change.node.place, change.place), change.reason, change.node)
            for change in self.replaces
        ):
            moved = '' if old == new else f' -> {where(new)}'
            yield f'{self.group}: ~{len(nodes)} {where(old)}{moved} ({reason}): {named(nodes)}'
        for place, reason, nodes in _alike(
            (change.node.place, change.reason, change.node) for change in self.removes
        ):
            yield f'{self.group}: -{len(nodes)} {where(place)} ({reason}): {named(nodes)}'
        for _, reason, nodes in _alike(
            (None, keep.reason, keep.node) for keep in self.keeps if keep.reason
        ):
            yield f'{self.group}: ={len(nodes)} ({reason}): {named(nodes)}'

    def to_dict(self) -> dict[str, Any]:
        return {
            'group': self.group,
            'role': self.role,
            'count': self.count,
            'table': [_place(place) | {'count': count} for place, count in self.table.items()],
            'add': [_place(change.place) | {'reason': change.reason} for change in self.adds],
            'replace': [
                _node(change.node, change.reason) | {'by': _place(change.place)}
                for change in self.replaces
            ],
            'remove': [_node(change.node, change.reason) for change in self.removes],
            'keep': [_node(change.node, change.reason) for change in self.keeps],
            'leaving': [_node(node, node.doomed) for node in self.leaving],
            'problems': [dataclasses.asdict(problem) for problem in self.problems],
        }


class Shared(enum.StrEnum):
    """What happens to the resources that all nodes of a cluster share."""

    ADD = 'add'
    KEEP = 'keep'
    REMOVE = 'remove'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClusterPlan:
    """The changes to a cluster, group by group in the order in which they begin.

    Shared resources are created before the first node and removed after the last.
    """

    cluster: str
    shared: Shared
    groups: tuple[GroupPlan, ...]

    @property
    def empty(self) -> bool:
        """True if nothing is to change."""
        return self.shared is Shared.KEEP and all(plan.empty for plan in self.groups)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What must be corrected before anything is done."""
        return tuple(problem for plan in self.groups for problem in plan.problems)

    def lines(self) -> Iterator[str]:
        """Yield the changes for people, in the order in which they begin."""
        what = f'{self.cluster}: {{}} what its nodes share'
        if self.shared is Shared.ADD:
            yield what.format('+')
        for plan in self.groups:
            yield from plan.lines()
        if self.shared is Shared.REMOVE:
            yield what.format('-')

    def to_dict(self) -> dict[str, Any]:
        return {
            'cluster': self.cluster,
            'shared': self.shared.value,
            'groups': [plan.to_dict() for plan in self.groups],
        }


def where(place: Place) -> str:
    """Return a place for people."""
    flavor = place.flavor or 'of the default flavor'
    return f'{flavor} in {place.zone}' if place.zone else flavor


def placement_rows(table: Mapping[Place, int]) -> list[tuple[str, ...]]:
    """Return a table as rows of text: a row per flavor, a column per zone, and totals."""
    flavors = sorted({place.flavor for place in table}, key=lambda name: name or '')
    zones = sorted({place.zone for place in table}, key=lambda name: name or '')
    rows: list[tuple[str, ...]] = [('flavor', *(zone or 'any zone' for zone in zones), 'all')]
    for flavor in flavors:
        counts = [table.get(Place(flavor, zone), 0) for zone in zones]
        rows.append((flavor or 'default', *map(str, counts), str(sum(counts))))
    columns = [sum(table.get(Place(flavor, zone), 0) for flavor in flavors) for zone in zones]
    return [*rows, ('all', *map(str, columns), str(sum(columns)))]


def _alike(changes: Iterable[tuple[Any, str, Any]]) -> Iterator[tuple[Any, str, list[Any]]]:
    groups: dict[tuple[Any, str], list[Any]] = {}
    for what, reason, node in changes:
        groups.setdefault((what, reason), []).append(node)
    for (what, reason), nodes in groups.items():
        yield what, reason, nodes


def named(nodes: Sequence[Node]) -> str:
    """Return the names of nodes for people: the first few, and how many more."""
    names = ', '.join(node.name for node in nodes[:_NAMED])
    more = len(nodes) - _NAMED
    return f'{names} and {more} more' if more > 0 else names


def _place(place: Place) -> dict[str, Any]:
    return {'flavor': place.flavor, 'zone': place.zone}


def _node(node: Node, reason: str) -> dict[str, Any]:
    described = {'id': node.id, 'name': node.name, 'state': node.state.value, 'reason': reason}
    return described | _place(node.place)


def going(node: Node) -> bool:
    """Return whether a node is being removed, or is gone."""
    return node.state.leaving or bool(node.doomed)
