"""What would happen: shown to whoever asked, and entered just so if he agrees."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kiln.cluster_drivers.values import PlannedChange, PlannedGroup
from kiln.clusters.models import Cluster, Node, OperationKind
from kiln.engine.plan.changes import ClusterPlan, named

_NOTHING: Mapping[str, Any] = MappingProxyType({})

#: Operations that change nothing of what is wanted.
_DOING = frozenset(
    {
        OperationKind.REPLACE,
        OperationKind.REBUILD,
        OperationKind.REBOOT,
        OperationKind.ADOPT,
        OperationKind.CHECK,
        OperationKind.DELETE,
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """An operation that nobody has entered yet, and what it would do.

    It holds for the cluster as it was when it was made. If that was changed
    since, it is refused, and nothing happens.
    """

    kind: OperationKind
    #: As it would be.
    cluster: Cluster
    #: As it is; None where there is none yet.
    before: Cluster | None
    plan: ClusterPlan
    #: Who is to go, by id, and why: entered together with the counts.
    doomed: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NOTHING)
    args: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)
    #: The nodes that something is done to where they are.
    touched: tuple[Node, ...] = ()
    #: What somebody should know, though nothing keeps it from being done.
    notices: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of the cluster that are not gone, as far as kiln plans them."""
        return tuple(node for group in self.plan.groups for node in (*group.live, *group.leaving))

    @property
    def changes_spec(self) -> bool:
        """Whether what is wanted of the cluster changes."""
        return self.kind not in _DOING

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        if self.before is None:
            return False
        if not self.changes_spec:
            return self.kind is OperationKind.REPLACE and self.plan.empty
        same = (self.before.spec, self.before.pin) == (self.cluster.spec, self.cluster.pin)
        return same and self.plan.empty and not self.doomed

    def lines(self) -> Iterator[str]:
        """Yield what would happen, for people."""
        pin, name = self.cluster.pin, self.cluster.name
        if self.before is None:
            yield f'{name}: + cluster of driver {pin.name} {pin.version}'
        elif (was := self.before.pin) != pin:
            yield f'{name}: ~ driver {was.name} {was.version} -> {pin.name} {pin.version}'
        touched: dict[str, list[Node]] = {}
        for node in self.touched:
            touched.setdefault(node.group, []).append(node)
        for group, nodes in touched.items():
            yield f'{group}: !{len(nodes)} ({self.kind.value}): {named(nodes)}'
        yield from self.plan.lines()
        if self.empty:
            yield f'{name}: nothing to do'

    def to_dict(self) -> dict[str, Any]:
        pin = dataclasses.asdict(self.cluster.pin)
        return {
            'kind': self.kind.value,
            'cluster': self.cluster.name,
            'driver': pin,
            'generation': self.cluster.generation,
            'plan': self.plan.to_dict(),
            'touched': [{'id': node.id, 'name': node.name} for node in self.touched],
            'notices': list(self.notices),
            'empty': self.empty,
        }

    def change(self) -> PlannedChange:
        """Return it as cluster drivers are asked about it."""
        groups = (
            PlannedGroup(
                name=group.group,
                added=(
                    *(act.place for act in group.adds),
                    *(act.place for act in group.replaces),
                ),
                removed=(
                    *(act.node for act in group.removes),
                    *(act.node for act in group.replaces),
                ),
                reset=tuple(node for node in self.touched if node.group == group.group),
            )
            for group in self.plan.groups
        )
        return PlannedChange(kind=self.kind, groups=tuple(groups))
