"""What is asked of a cluster in its life, as a table; a new kind of operation is a new row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kiln.cluster_drivers.values import Cap
from kiln.clusters.models import Node, OperationKind

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What somebody asks of the one group that a cluster of the kit has."""

    #: How many nodes there are to be; None where that does not change.
    count: int | None = None
    #: Whether nodes are to be made in another way.
    renewed: bool = False
    #: Ids of the nodes that are to go.
    doomed: tuple[str, ...] = ()
    args: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One operation: what is asked, and whom it must not touch."""

    kind: OperationKind
    #: In words, for reports.
    title: str
    #: What is asked, given the nodes there are, the oldest first.
    wish: Callable[[Sequence[Node]], Wish]
    #: Of these nodes, the ids of those that must still be what they were: the same
    #: node, the same machine.
    spared: Callable[[Sequence[Node]], frozenset[str]]
    #: What a driver must be able to do; None is what all can.
    cap: Cap | None = None


def _middle(nodes: Sequence[Node]) -> Node:
    return nodes[len(nodes) // 2]


def _all(nodes: Sequence[Node]) -> frozenset[str]:
    return frozenset(node.id for node in nodes)


def _none(nodes: Sequence[Node]) -> frozenset[str]:
    return frozenset()


def _all_but_the_middle(nodes: Sequence[Node]) -> frozenset[str]:
    return _all(nodes) - {_middle(nodes).id}


CREATE = Row(kind=OperationKind.CREATE, title='create', wish=lambda nodes: Wish(), spared=_none)
GROW = Row(
    kind=OperationKind.RESIZE,
    title='grow',
    cap=Cap.RESIZE,
    wish=lambda nodes: Wish(count=len(nodes) + 1),
    spared=_all,
)
SHRINK = Row(
    kind=OperationKind.RESIZE,
    title='remove a node from the middle',
    cap=Cap.RESIZE,
    wish=lambda nodes: Wish(count=len(nodes) - 1, doomed=(_middle(nodes).id,)),
    spared=_all_but_the_middle,
)
#: Nodes come and a named one goes, in one operation.
RESIZE = Row(
    kind=OperationKind.RESIZE,
    title='resize',
    cap=Cap.RESIZE,
    wish=lambda nodes: Wish(count=len(nodes) + 1, doomed=(_middle(nodes).id,)),
    spared=_all_but_the_middle,
)
UPGRADE = Row(
    kind=OperationKind.UPGRADE,
    title='upgrade',
    cap=Cap.UPGRADE,
    wish=lambda nodes: Wish(renewed=True),
    spared=_none,
)
REPLACE = Row(
    kind=OperationKind.REPLACE,
    title='replace a node',
    wish=lambda nodes: Wish(args={'replace': (_middle(nodes).id,)}),
    spared=_all_but_the_middle,
)
#: The machines stay what they are; that each was reset is in the journal.
REBOOT = Row(
    kind=OperationKind.REBOOT,
    title='reboot',
    wish=lambda nodes: Wish(),
    spared=_all,
    cap=Cap.REBOOT,
)
REBUILD = Row(
    kind=OperationKind.REBUILD,
    title='rebuild',
    wish=lambda nodes: Wish(),
    spared=_all,
    cap=Cap.REBUILD,
)
DELETE = Row(kind=OperationKind.DELETE, title='delete', wish=lambda nodes: Wish(), spared=_none)

#: A whole life, in its order: the rows that random kills go through.
LIFE: tuple[Row, ...] = (
    CREATE, REBOOT, RESIZE, REBUILD, UPGRADE, REPLACE, DELETE,
)  # fmt: skip
