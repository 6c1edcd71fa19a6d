"""Table of the operations of a cluster; a new kind of operation is a new row."""

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
    """Desired change of the one group that a cluster of the kit has."""

    #: Desired number of nodes; None if it does not change.
    count: int | None = None
    #: True if the machine specification of the nodes changes.
    renewed: bool = False
    #: Ids of the nodes to remove.
    doomed: tuple[str, ...] = ()
    args: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One operation: the desired change, and the nodes that it must not touch."""

    kind: OperationKind
    #: Title for reports.
    title: str
    #: Returns the desired change, given the existing nodes, oldest first.
    wish: Callable[[Sequence[Node]], Wish] = lambda nodes: Wish()
    #: Returns the ids of the nodes that must stay unchanged: the same node, the same
    #: machine.
    spared: Callable[[Sequence[Node]], frozenset[str]] = lambda nodes: frozenset()
    #: The capability that the driver needs; None if every driver can do it.
    cap: Cap | None = None


def _middle(nodes: Sequence[Node]) -> Node:
    return nodes[len(nodes) // 2]


def _all(nodes: Sequence[Node]) -> frozenset[str]:
    return frozenset(node.id for node in nodes)


def _all_but_the_middle(nodes: Sequence[Node]) -> frozenset[str]:
    return _all(nodes) - {_middle(nodes).id}


CREATE = Row(kind=OperationKind.CREATE, title='create')
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
#: Adds nodes and removes a named one in one operation.
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
)
REPLACE = Row(
    kind=OperationKind.REPLACE,
    title='replace a node',
    wish=lambda nodes: Wish(args={'replace': (_middle(nodes).id,)}),
    spared=_all_but_the_middle,
)
#: The machines stay the same; the journal records that each was reset.
REBOOT = Row(kind=OperationKind.REBOOT, title='reboot', cap=Cap.REBOOT, spared=_all)
REBUILD = Row(kind=OperationKind.REBUILD, title='rebuild', cap=Cap.REBUILD, spared=_all)
DELETE = Row(kind=OperationKind.DELETE, title='delete')

#: The whole life of a cluster, in order: the operations that random kills interrupt.
LIFE = (CREATE, REBOOT, RESIZE, REBUILD, UPGRADE, REPLACE, DELETE)
