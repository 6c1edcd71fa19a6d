"""Proposals: an operation and its plan, shown before they are applied unchanged."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kiln.cluster_drivers.values import PlannedChange, PlannedGroup
from kiln.clusters.exceptions import Problem
from kiln.clusters.models import Cluster, Node, OperationKind
from kiln.clusters.spec import ClusterTemplate
from kiln.engine.plan.changes import ClusterPlan, named

_NOTHING: Mapping[str, Any] = MappingProxyType({})

#: The argument of a creation that goes on with what exists: what users call that.
EXISTING = 'existing'

#: Operations that do not change the desired state.
_DOING = frozenset(
    {
        OperationKind.REPLACE,
        OperationKind.REBUILD,
        OperationKind.REBOOT,
        OperationKind.ADOPT,
        OperationKind.ROTATE,
        OperationKind.CHECK,
        OperationKind.DELETE,
    }
)


def changes_spec(kind: OperationKind) -> bool:
    """Return whether operations of a kind change the desired state of a cluster."""
    return kind not in _DOING


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """An operation that is not submitted, and what it would do.

    It is valid for the cluster as it was when the proposal was made. If the cluster was
    changed since, the proposal is refused, and nothing happens.
    """

    kind: OperationKind
    #: The cluster after the change.
    cluster: Cluster
    #: The cluster now; None if it does not exist.
    before: Cluster | None
    plan: ClusterPlan
    #: The nodes to remove, by id, and why; written together with the counts.
    doomed: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NOTHING)
    args: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)
    #: The nodes that are changed in place.
    touched: tuple[Node, ...] = ()
    #: Machines that exist, as the nodes that they become.
    taken: tuple[Node, ...] = ()
    #: The template that the cluster names; None without one.
    template: ClusterTemplate | None = None
    #: Warnings that do not prevent the operation.
    notices: tuple[str, ...] = ()
    #: What the driver's own engine would lose of what is on nodes.
    losses: tuple[str, ...] = ()
    #: Mistakes found while planning; the preflight reports them with all others.
    problems: tuple[Problem, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of the cluster that are not gone, as far as kiln plans them."""
        return tuple(node for group in self.plan.groups for node in (*group.live, *group.leaving))

    @property
    def existing(self) -> str:
        """What users call what a creation goes on with; empty for one that begins with nothing."""
        return str(self.args.get(EXISTING, ''))

    @property
    def shrinks_by(self) -> int:
        """How many nodes fewer the driver's own engine would have, or remove by name."""
        if self.before is None or self.plan.groups:
            return 0
        now = {group.name: group.shape.count for group in self.cluster.spec.groups}
        fewer = (group.shape.count - now.get(group.name, 0) for group in self.before.spec.groups)
        named = len(self.args.get('remove', ()))
        return max(sum(one for one in fewer if one > 0), named)

    @property
    def changes_spec(self) -> bool:
        """True if the desired state of the cluster changes."""
        return changes_spec(self.kind)

    @property
    def empty(self) -> bool:
        """True if there is nothing to do."""
        if self.before is None:
            return False
        if not self.changes_spec:
            return self.kind is OperationKind.REPLACE and self.plan.empty
        same = (self.before.spec, self.before.pin) == (self.cluster.spec, self.cluster.pin)
        # An engine replaces a node that is named although the count stays.
        named = self.doomed or self.args.get('remove')
        return same and self.plan.empty and not named

    def lines(self) -> Iterator[str]:
        """Yield what would happen, for people."""
        pin, name = self.cluster.pin, self.cluster.name
        if self.before is None:
            begun = f', from {self.existing}' if self.existing else ''
            yield f'{name}: + cluster of driver {pin.name} {pin.version}{begun}'
        elif (was := self.before.pin) != pin:
            yield f'{name}: ~ driver {was.name} {was.version} -> {pin.name} {pin.version}'
        touched, taken = _by_group(self.touched), _by_group(self.taken)
        for group, nodes in taken.items():
            yield f'{group}: ={len(nodes)} that exist: {named(nodes)}'
        for group, nodes in touched.items():
            yield f'{group}: !{len(nodes)} ({self.kind.value}): {named(nodes)}'
        if self.kind is OperationKind.ROTATE:
            yield f'{name}: ! rotate the {str(self.args["what"]).replace("_", " ")}'
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
            **({'existing': self.existing} if self.existing else {}),
            'plan': self.plan.to_dict(),
            **({'taken': [_machine(node) for node in self.taken]} if self.taken else {}),
            'touched': [{'id': node.id, 'name': node.name} for node in self.touched],
            'notices': list(self.notices),
            'empty': self.empty,
        }

    def change(self) -> PlannedChange:
        """Return the proposal in the form that cluster drivers check."""
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
        named = () if self.plan.groups else tuple(self.args.get('remove', ()))
        return PlannedChange(kind=self.kind, groups=tuple(groups), named=named)


def _by_group(nodes: Iterable[Node]) -> Mapping[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(node.group, []).append(node)
    return found


def _machine(node: Node) -> Mapping[str, str | None]:
    return {'group': node.group, 'name': node.name, 'machine': node.compute_id}
