"""The desired state of a cluster, and the plan that leads to it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster, Node, NodeState, Operation, OperationKind
from kiln.clusters.spec import MachineSpec, NodeGroupSpec, Place, ZoneRule
from kiln.engine.plan.backend_choice import BackendOf, as_declared
from kiln.engine.plan.changes import ClusterPlan, DesiredGroup, GroupPlan
from kiln.engine.plan.choice import Choice, Question, questions
from kiln.engine.plan.diff import CONTROL, plan_cluster
from kiln.engine.plan.repair import Setback, remediate
from kiln.engine.plan.rollout import GroupRound, next_round
from kiln.exceptions import InsufficientCapacity

Zones = Callable[[str | None], Sequence[str] | None]
_NOBODY: Mapping[str, str] = MappingProxyType({})
_NO_SETBACKS: Mapping[str, Setback] = MappingProxyType({})

#: Operations that replace all nodes built from an older spec.
_RENEWING = frozenset({OperationKind.UPGRADE, OperationKind.UPDATE})


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterRound:
    """The part of a plan to begin now."""

    #: By group, in the order in which the groups begin.
    rounds: Sequence[tuple[str, GroupRound]]
    #: Why the rest has to wait, for people.
    holds: tuple[str, ...]
    #: True if there is a rest.
    more: bool
    #: What the driver's scale manager is asked before more nodes go.
    questions: tuple[Question, ...] = ()


class Desired:
    """The desired state of one generation of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        context: Context,
        zones: Zones = lambda backend: (),
        templates: str = '',
        *,
        control_first: bool = True,
        backend_of: BackendOf = as_declared,
    ) -> None:
        """Take the declared state.

        :param zones: returns the zones of a backend, None if unknown.
        :param templates: the digest of the operator's own templates; empty without them.
        :param control_first: if true, other groups wait for a ready control node.
        :param backend_of: the driver's choice of the backend of a group.
        """
        self._cluster = cluster
        self._context = context
        self._zones = zones
        self._templates = templates
        self._control_first = control_first
        self._backend_of = backend_of
        self._machines: dict[str, MachineSpec] = {}
        self._digests: dict[str, str] = {}

    def machine(self, group: str) -> MachineSpec:
        """Return the machine of a group, with all defaults filled in.

        :raises ClusterDriverError: the driver cannot choose its backend.
        """
        if group not in self._machines:
            machine = self._context.effective(self._cluster, group).machine
            backend = self._backend_of(self._context.group(self._cluster, group))
            if backend is not None:
                machine = dataclasses.replace(machine, compute_driver=backend)
            self._machines[group] = machine
        return self._machines[group]

    def made_with(self, group: str) -> str:
        """Return the digest of the spec that the nodes of a group are built from.

        Their flavor is not part of it: it belongs to their place.
        """
        # Called for each node that is added, but the same for all nodes of a group.
        if group not in self._digests:
            self._digests[group] = self._digest(self.machine(group))
        return self._digests[group]

    def _digest(self, like: MachineSpec) -> str:
        machine = dataclasses.replace(like, flavor=None, parameters={})
        parameters = dict(like.parameters)
        parts = [dataclasses.asdict(machine), parameters, self._cluster.pin.digest]
        if self._templates:
            parts.append(self._templates)
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def startup_timeout_s(self, group: str) -> float:
        """Return how long a node of a group is allowed to take to become ready."""
        return self._context.group(self._cluster, group).health.startup_timeout_s

    def place(self, node: Node) -> Place:
        """Return the place of the current attempt of a node."""
        places = self._places(node)
        return places[(node.attempt - 1) % len(places)]

    def has_other_places(self, node: Node) -> bool:
        """Return whether a node that found no room has fallbacks left before it waits."""
        return node.attempt % len(self._places(node)) != 0

    def moves_elsewhere(self, node: Node) -> bool:
        """Return whether a node that found no room is to be tried at another place."""
        full = node.cause is not None and node.cause.code == InsufficientCapacity.code
        return full and not node.doomed and self.has_other_places(node)

    def _places(self, node: Node) -> list[Place]:
        spec = self._cluster.spec.group(node.group)
        if spec is None:
            return [node.place]
        return [
            Place(flavor, zone)
            for flavor in (node.place.flavor, *spec.fallback.flavors)
            for zone in (node.place.zone, *spec.fallback.zones)
        ]

    # ---- planning --------------------------------------------------------------

    def next(
        self,
        operation: Operation,
        nodes: Sequence[Node],
        now: float,
        *,
        renew: bool = False,
        setbacks: Mapping[str, Setback] = _NO_SETBACKS,
        choice: Choice | None = None,
    ) -> ClusterRound:
        """Return what to begin now; nothing without a rest means that all is as desired."""
        try:
            self._choose_backends(operation)
        except ClusterDriverError as exc:
            return ClusterRound(rounds=(), holds=(str(exc).rstrip('.'),), more=True)
        # Nodes that are removed need no zone, nor a backend that reports one.
        if operation.kind is not OperationKind.DELETE and (unknown := self._unknown_zones()):
            hold = f'the zones for {", ".join(unknown)} are not known yet'
            return ClusterRound(rounds=(), holds=(hold,), more=True)
        plan, holds = self.plan(
            operation, nodes, now, renew=renew, setbacks=setbacks, choice=choice
        )
        rounds = []
        asked: list[Question] = []
        more = bool(holds)
        for group in plan.groups:
            begun = next_round(group)
            rounds.append((group.group, begun))
            holds += begun.holds
            if begun.asks:
                asked += questions(group, shown(operation))
            more = more or bool(begun.holds or group.replaces)
            if self._control_first and not _open(group, nodes):
                more = True
                break
        return ClusterRound(
            rounds=tuple(rounds), holds=tuple(holds), more=more, questions=tuple(asked)
        )

    def desired_group(self, group: NodeGroupSpec) -> DesiredGroup:
        """Return a group in its desired state, with all defaults filled in."""
        machine, made_with = self.machine(group.name), self.made_with(group.name)
        spread = group.shape.zones.rule is ZoneRule.SPREAD
        zones = self._zones(machine.compute_driver) if spread else None
        return DesiredGroup(
            group=group, flavor=machine.flavor, zones=tuple(zones or ()), made_with=made_with
        )

    def _choose_backends(self, operation: Operation) -> None:
        if operation.kind is not OperationKind.DELETE:
            for group in self._cluster.spec.groups:
                self.machine(group.name)

    def _unknown_zones(self) -> list[str]:
        """Return the groups that cannot be planned: the zones of their backend are unknown."""
        return [
            group.name
            for group in self._cluster.spec.groups
            if group.shape.zones.rule is ZoneRule.SPREAD
            and self._zones(self.machine(group.name).compute_driver) is None
        ]

    def plan(
        self,
        operation: Operation,
        nodes: Sequence[Node],
        now: float,
        *,
        doomed: Mapping[str, str] = _NOBODY,
        renew: bool = False,
        setbacks: Mapping[str, Setback] = _NO_SETBACKS,
        choice: Choice | None = None,
    ) -> tuple[ClusterPlan, list[str]]:
        """Return all changes, and why some of them have to wait.

        The same plan serves callers that preview an operation and the engine that runs it. For
        a preview, ``doomed`` names the nodes that would be removed, and why; the engine reads
        the marks of the nodes instead.

        :param renew: replace nodes that were built from another spec, for any operation.
        :param setbacks: by group, the failures in a row.
        :param choice: the driver's choice of nodes; by default the one that the operation has.
        """
        renew = renew or operation.kind in _RENEWING
        name, last = self._cluster.name, self._cluster.former
        former = last.spec if last else None
        if operation.kind is OperationKind.DELETE:
            return plan_cluster(name, (), nodes, exists=True, former=self._cluster.spec), []
        groups: list[DesiredGroup] = []
        victims = dict(doomed)
        holds: list[str] = []
        for group in self._cluster.spec.groups:
            groups.append(self.desired_group(group))
            found = remediate(group, _of(nodes, group.name), now, setbacks.get(group.name))
            victims = {**found.victims, **victims}
            holds += [found.hold] if found.hold else []
        there = {node.id for node in nodes}
        replace = {one: 'asked for' for one in operation.args.get('replace', ()) if one in there}
        renewed = [one.group.name for one in groups] if renew else ()
        plan = plan_cluster(
            name, groups, nodes, exists=True, former=former, victims=victims, replace=replace,
            upgrade=renewed, choice=choice or Choice(shown=shown(operation)),
        )  # fmt: skip
        return plan, holds


def shown(operation: Operation) -> tuple[str, ...]:
    """Return the ids of the nodes to remove that were chosen when the plan was shown."""
    return tuple(operation.args.get('remove', ()))


def _of(nodes: Iterable[Node], group: str) -> list[Node]:
    return [node for node in nodes if node.group == group]


def _open(group: GroupPlan, nodes: Iterable[Node]) -> bool:
    """Return whether later groups can begin: their nodes need a ready control node to join."""
    if group.role != CONTROL or not group.count:
        return True
    return any(node.state is NodeState.READY for node in _of(nodes, group.group))
