"""Table of the operations of a cluster; a new kind of operation is a new row."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kiln.cluster_drivers.values import Cap
from kiln.clusters.models import Node, OperationKind


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One operation on the one group of a cluster of the kit that changes."""

    kind: OperationKind
    #: Title for reports.
    title: str
    #: The capability that the driver needs; None if every driver can do it.
    cap: Cap | None = None
    #: Number of nodes by which the group grows; None if its count does not change.
    grows: int | None = None
    #: True if the machine specification of the nodes changes.
    renews: bool = False
    #: True if it names the node in the middle, to remove it or to replace it.
    names_one: bool = False
    #: True if every node that it does not name must stay: the same node, the same machine.
    spares: bool = True

    def named(self, nodes: Sequence[Node]) -> tuple[str, ...]:
        """Return the ids of the nodes that it names, given those of its group, oldest first."""
        return (nodes[len(nodes) // 2].id,) if self.names_one else ()

    def spared(self, nodes: Sequence[Node], group: str) -> frozenset[str]:
        """Return the ids of the nodes that must stay unchanged, of all groups."""
        named = self.named([node for node in nodes if node.group == group])
        return frozenset(node.id for node in nodes if self.spares).difference(named)


CREATE = Row(kind=OperationKind.CREATE, title='create')
GROW = Row(kind=OperationKind.RESIZE, title='grow', cap=Cap.RESIZE, grows=1)
SHRINK = Row(
    kind=OperationKind.RESIZE,
    title='remove a node from the middle',
    cap=Cap.RESIZE,
    grows=-1,
    names_one=True,
)
#: Adds nodes and removes a named one in one operation.
RESIZE = Row(kind=OperationKind.RESIZE, title='resize', cap=Cap.RESIZE, grows=1, names_one=True)
UPGRADE = Row(
    kind=OperationKind.UPGRADE, title='upgrade', cap=Cap.UPGRADE, renews=True, spares=False
)
REPLACE = Row(kind=OperationKind.REPLACE, title='replace a node', names_one=True)
#: The machines stay the same; the journal records that each was reset.
REBOOT = Row(kind=OperationKind.REBOOT, title='reboot', cap=Cap.REBOOT)
REBUILD = Row(kind=OperationKind.REBUILD, title='rebuild', cap=Cap.REBUILD)
DELETE = Row(kind=OperationKind.DELETE, title='delete', spares=False)

#: The whole life of a cluster, in order: the operations that random kills interrupt.
LIFE = (CREATE, REBOOT, RESIZE, REBUILD, UPGRADE, REPLACE, DELETE)
