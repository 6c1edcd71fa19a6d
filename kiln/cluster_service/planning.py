"""Planning: proposals from requests; reads, and changes nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kiln.clock import Clock
from kiln.cluster_drivers.selection.request import Image
from kiln.cluster_drivers.values import Context
from kiln.cluster_file.checking import check
from kiln.cluster_file.merging import combined
from kiln.cluster_service import requests
from kiln.cluster_service.choosing import chosen, removals
from kiln.cluster_service.declared import check_driver, with_nodes
from kiln.cluster_service.drivers import SiteDrivers, known_nodes, previews
from kiln.cluster_service.existing import with_existing
from kiln.cluster_service.named_parts import group_named, group_of, named_nodes
from kiln.cluster_service.proposals import Proposal, changes_spec
from kiln.cluster_service.spec_changes import over, with_groups, without
from kiln.cluster_service.taking_over import Taking, refuse_losses, taken_of
from kiln.clusters.exceptions import (
    ClusterBusy,
    ClusterError,
    ClusterExists,
    ClusterNotFound,
    InvalidCluster,
    MissingCapability,
    Problem,
    WithProblems,
)
from kiln.clusters.limits import DEFAULT_LIMITS, NodeLimits
from kiln.clusters.models import Cause, Cluster, Node, NodeState, Operation, OperationKind
from kiln.clusters.placing.counts import check_count
from kiln.clusters.spec import MOST_NODES, ClusterSpec, ClusterTemplate, MachineSpec
from kiln.db.store import Store
from kiln.engine.driver_context import DriverContexts, existing
from kiln.engine.measuring import Meter
from kiln.engine.nodes.join_key import known_key, new_key
from kiln.engine.nodes.scale_choice import ScaleChoice, has_scale_manager
from kiln.engine.plan.backend_choice import chosen_by
from kiln.engine.plan.changes import ClusterPlan, DesiredGroup, Shared
from kiln.engine.plan.choice import all_held, questions
from kiln.engine.plan.desired import Desired, Zones
from kiln.engine.plan.diff import resize
from kiln.engine.plan.lifecycle import cause_of
from kiln.engine.plan.taken import taken_args
from kiln.exceptions import KilnError

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NOBODY: Mapping[str, str] = MappingProxyType({})
ASKED_FOR = 'asked for'

#: Returns the facts about the image of a machine; None if they are unknown.
Images = Callable[[MachineSpec], Image | None]


class Planning:
    """Makes proposals from requests."""

    def __init__(
        self,
        store: Store,
        drivers: SiteDrivers,
        images: Images,
        *,
        clock: Clock,
        contexts: DriverContexts,
        meter: Meter,
        zones: Zones = lambda backend: (),
        limits: NodeLimits = DEFAULT_LIMITS,
    ) -> None:
        self._store = store
        self._contexts = contexts
        self._zones = zones
        self._images = images
        self._drivers = drivers
        self._clock = clock
        self._meter = meter
        self._limits = limits

    @functools.singledispatchmethod
    def propose(self, request: requests.Request) -> Proposal:
        """Return what a request would do; nothing is done, and no backend has agreed to it."""
        raise TypeError(f'{request!r} is not a request')

    # ---- the desired state changes -----------------------------------------------

    @propose.register
    def _(self, request: requests.Declare) -> Proposal:
        template, spec = self._declared(request)
        try:
            there = self._store.clusters.get(spec.name)
        except ClusterNotFound:
            found = self._new(spec)
        else:
            self._check_stays(there)
            check_driver(spec, there)
            wanted = dataclasses.replace(there, spec=spec)
            found = self._changed(there, wanted, OperationKind.UPDATE)
        if isinstance(request, requests.AdoptExisting):
            found = self._from_existing(found, request.existing)
        if isinstance(request, requests.TakeOver):
            found = self._from_machines(found, request.machines)
        # Until the proposal is applied, the store has none or an older one.
        return dataclasses.replace(found, template=template)

    @propose.register
    def _(self, request: requests.Resize) -> Proposal:
        there, nodes = self._there(request.cluster)
        if not self._drivers.plans_nodes(there.pin):
            return self._resized_by_engine(there, request)
        removed = named_nodes(there, nodes, request.remove)
        group = group_of(there, request.group, removed)
        wanted = self._desired(there).desired_group(group)
        count = group.shape.count - len(removed) if request.count is None else request.count
        if count < 0:
            message = f'count is {count}; it cannot be below 0'
            raise InvalidCluster([Problem(message=message, path=f'nodegroups[{group.name}]')])
        named = {node.id: ASKED_FOR for node in removed}
        members = [node for node in nodes if node.group == group.name]
        found = resize(wanted, members, count, named)
        group = dataclasses.replace(group, shape=found.shape)
        after = dataclasses.replace(there, spec=with_groups(there.spec, [group]))
        if (scale := self._scale_choice(after, nodes)) is not None:
            found = chosen(scale, group, members, found, named, forced=request.force)
        return self._changed(
            there, after, OperationKind.RESIZE, doomed=found.victims, args={'group': group.name}
        )

    def _resized_by_engine(self, there: Cluster, request: requests.Resize) -> Proposal:
        """Return the resize of a group whose nodes an engine of the driver's own builds."""
        nodes = known_nodes(self._drivers.open(there.pin), there)
        # A name that is unknown here is left to the driver: its nodes can be newer.
        removed = [node for node in nodes if node.name in request.remove]
        if request.group is None and not removed and len(there.spec.groups) > 1:
            raise ClusterError(
                f'Cannot resize cluster {there.name!r}: its nodes are built by the engine of '
                f"{there.pin.name}, so their group must be named: 'kiln cluster scale "
                f"{there.name} GROUP=COUNT --remove NODE'."
            )
        group = group_of(there, request.group, removed)
        count = request.count
        if count is None:
            count = group.shape.count - len(request.remove)
        # If no nodes are known, all flavors and zones lose in proportion.
        members = [node for node in nodes if node.group == group.name]
        named = {node.id: ASKED_FOR for node in removed}
        shape = resize(DesiredGroup(group=group), members, count, named).shape
        if problems := check_count(group, count):
            raise InvalidCluster(problems)
        spec = with_groups(there.spec, [dataclasses.replace(group, shape=shape)])
        args = {'group': group.name, 'remove': list(request.remove)}
        after = dataclasses.replace(there, spec=spec)
        return self._changed(there, after, OperationKind.RESIZE, args=args)

    @propose.register
    def _(self, request: requests.Upgrade) -> Proposal:
        there, _ = self._there(request.cluster)
        if not request.groups:
            machine = over(there.spec.machine, request.machine)
            # A group's own values would hide the values requested for all groups.
            groups = [
                dataclasses.replace(one, machine=without(one.machine, request.machine))
                for one in there.spec.groups
            ]
            spec = dataclasses.replace(with_groups(there.spec, groups), machine=machine)
        else:
            chosen = [group_named(there, name) for name in request.groups]
            spec = with_groups(
                there.spec,
                [
                    dataclasses.replace(one, machine=over(one.machine, request.machine))
                    for one in chosen
                ],
            )
        args = {'groups': list(request.groups)} if request.groups else {}
        after = dataclasses.replace(there, spec=spec)
        return self._changed(there, after, OperationKind.UPGRADE, args=args)

    @propose.register
    def _(self, request: requests.MoveDriver) -> Proposal:
        there, _ = self._there(request.cluster)
        named = request.driver or there.pin.name
        decision = self._drivers.choose(
            there.spec, named=named, image=self._image(there.spec, named)
        )
        moved = dataclasses.replace(there, pin=decision.pin, decision=decision.to_dict())
        return self._changed(there, moved, OperationKind.UPGRADE, notices=decision.notices)

    @propose.register
    def _(self, request: requests.GoBack) -> Proposal:
        there, _ = self._there(request.cluster)
        if there.former is None:
            raise ClusterError(
                f'Cannot bring cluster {there.name!r} back: none of its operations has succeeded.'
            )
        last = there.former
        before = dataclasses.replace(there, spec=last.spec, pin=last.pin, decision=last.decision)
        return self._changed(there, before, OperationKind.UPDATE, args={'back': True})

    # ---- the desired state stays -------------------------------------------------

    @propose.register
    def _(self, request: requests.Replace) -> Proposal:
        there, nodes = self._there(request.cluster)
        chosen = named_nodes(there, nodes, request.nodes)
        args = {'replace': [one.id for one in chosen]}
        return self._proposal(there, there, nodes, OperationKind.REPLACE, args=args)

    @propose.register
    def _(self, request: requests.Reboot) -> Proposal:
        args = {'hard': request.hard}
        return self._in_place(request.cluster, request.nodes, OperationKind.REBOOT, args)

    @propose.register
    def _(self, request: requests.Rebuild) -> Proposal:
        return self._in_place(request.cluster, request.nodes, OperationKind.REBUILD, {})

    @propose.register
    def _(self, request: requests.Rotate) -> Proposal:
        there, nodes = self._there(request.cluster)
        args = {'what': request.what.value}
        return self._proposal(there, there, nodes, OperationKind.ROTATE, args=args)

    @propose.register
    def _(self, request: requests.Check) -> Proposal:
        there, nodes = self._there(request.cluster)
        return self._proposal(there, there, nodes, OperationKind.CHECK)

    @propose.register
    def _(self, request: requests.Adopt) -> Proposal:
        there, nodes = self._there(request.cluster)
        group = group_named(there, request.group)
        taken = [one.name for one in nodes if one.compute_id == request.amphora_id]
        if taken:
            raise ClusterError(
                f'Cannot adopt {request.amphora_id}: it is already node {taken[0]} of '
                f'cluster {there.name!r}.'
            )
        args = {'group': group.name, 'compute_id': request.amphora_id}
        return self._proposal(there, there, nodes, OperationKind.ADOPT, args=args)

    @propose.register
    def _(self, request: requests.Delete) -> Proposal:
        there, nodes = self._there(request.cluster)
        if not request.force:
            return self._proposal(there, there, nodes, OperationKind.DELETE)
        proposal = self._proposal(there, there, nodes, OperationKind.DELETE, args={'force': True})
        notice = 'no node is drained, and what cannot be deleted is abandoned: see the receipt'
        return dataclasses.replace(proposal, notices=(*proposal.notices, notice))

    # ---- making proposals --------------------------------------------------------

    def _new(self, spec: ClusterSpec) -> Proposal:
        image: Image | None = None
        problems: tuple[Problem, ...] = ()
        try:
            image = self._image(spec)
        except InvalidCluster as exc:
            # A wrong image must not hide wrong flavors and zones.
            problems = tuple(exc.problems)
        try:
            return dataclasses.replace(self._chosen(spec, image), problems=problems)
        except KilnError as exc:
            if not problems:
                raise
            # The driver can depend on the image, so a wrong choice is not reported as well.
            further = exc.problems if isinstance(exc, WithProblems) else ()
            raise InvalidCluster([*problems, *further]) from exc

    def _from_existing(self, found: Proposal, existing: str) -> Proposal:
        """Return the creation of a cluster that goes on with what exists in its engine."""
        cluster = found.cluster
        if found.before is not None:
            raise ClusterExists(
                f'Cannot create cluster {cluster.name!r} from {existing}: the name is taken.'
            )
        context = self._contexts.context(
            cluster, nodes=(), join_key=new_key, template=found.template
        )
        return with_existing(found, self._drivers.open(cluster.pin), context, existing)

    def _from_machines(self, found: Proposal, machines: Sequence[tuple[str, str]]) -> Proposal:
        """Return the creation of a cluster from machines that exist."""
        cluster = found.cluster
        if found.before is not None:
            raise ClusterExists(f'Cannot create cluster {cluster.name!r}: the name is taken.')
        if not self._drivers.plans_nodes(cluster.pin):
            raise MissingCapability(
                f'Cluster driver {cluster.pin.name} takes no machines over: its own engine '
                f'builds its nodes.'
            )
        taking = Taking(cluster, self._desired(cluster), self._store, self._contexts.backends)
        nodes = taking.nodes(machines)
        args = taken_args(taken_of(nodes))
        notices = (*found.notices, *taking.notices)
        taken = self._proposal(
            cluster, None, nodes, OperationKind.CREATE, args=args, notices=notices
        )
        refuse_losses(taken.plan)
        return dataclasses.replace(taken, problems=found.problems, taken=nodes)

    def _chosen(self, spec: ClusterSpec, image: Image | None) -> Proposal:
        decision = self._drivers.choose(spec, image=image)
        cluster = Cluster(
            id=str(uuid.uuid4()),
            name=spec.name,
            spec=spec,
            generation=1,
            pin=decision.pin,
            decision=decision.to_dict(),
            created_at=self._clock.time(),
        )
        return self._proposal(cluster, None, (), OperationKind.CREATE, notices=decision.notices)

    def _changed(
        self,
        there: Cluster,
        wanted: Cluster,
        kind: OperationKind,
        *,
        doomed: Mapping[str, str] = _NOBODY,
        args: Mapping[str, Any] = _NOTHING,
        notices: Iterable[str] = (),
    ) -> Proposal:
        after = dataclasses.replace(wanted, generation=there.generation + 1)
        nodes = self._store.nodes.of(there.id)
        return self._proposal(after, there, nodes, kind, doomed=doomed, args=args, notices=notices)

    def _in_place(
        self, name: str, words: Sequence[str], kind: OperationKind, args: Mapping[str, Any]
    ) -> Proposal:
        there, nodes = self._there(name)
        if not self._drivers.plans_nodes(there.pin):
            args = {**args, 'nodes': list(words)} if words else args
            return self._proposal(there, there, nodes, kind, args=args)
        chosen = named_nodes(there, nodes, words)
        if chosen:
            args = {**args, 'nodes': [one.id for one in chosen]}
        proposal = self._proposal(there, there, nodes, kind, args=args)
        ready = [one for one in nodes if one.state is NodeState.READY and not one.doomed]
        return dataclasses.replace(proposal, touched=tuple(chosen or ready))

    def _proposal(
        self,
        cluster: Cluster,
        before: Cluster | None,
        nodes: Sequence[Node],
        kind: OperationKind,
        *,
        doomed: Mapping[str, str] = _NOBODY,
        args: Mapping[str, Any] = _NOTHING,
        notices: Iterable[str] = (),
    ) -> Proposal:
        # Planning takes as long as there are nodes.
        self._check_size(cluster, before)
        if before is None or before.spec != cluster.spec:
            check(cluster.spec)
        operation = Operation(id='', cluster_id=cluster.id, kind=kind, args=args)
        # A deletion does not need the driver, which can be missing.
        if kind is OperationKind.DELETE or self._drivers.plans_nodes(cluster.pin):
            desired = self._desired(cluster, driven=kind is not OperationKind.DELETE)
            plan, holds, args = self._planned(desired, operation, cluster, nodes, doomed)
        else:
            shared = Shared.ADD if before is None else Shared.KEEP
            plan = ClusterPlan(cluster=cluster.name, shared=shared, groups=())
            name, holds = cluster.pin.name, []
            # What its engine foresees comes with the preflight, which can ask it.
            if not previews(self._drivers.open(cluster.pin)):
                holds = [f'{name} plans nodes by itself; its changes are not shown']
        if plan.problems:
            raise InvalidCluster(plan.problems)
        if before is not None and before.paused:
            holds = [*holds, 'the cluster is paused: nothing starts until it is resumed']
        return Proposal(
            kind=kind, cluster=cluster, before=before, plan=plan, doomed=doomed, args=args,
            template=self._contexts.template(cluster), notices=(*notices, *holds),
        )  # fmt: skip

    def _check_stays(self, there: Cluster) -> None:
        """Refuse to declare a cluster that is being deleted: it would not be there."""
        for operation in self._store.operations.open(there.id):
            if operation.kind is OperationKind.DELETE and not operation.cancelled:
                raise ClusterBusy(
                    f'Cannot declare cluster {there.name!r}: it is being deleted. Wait until it '
                    f"is gone ('kiln cluster watch {there.name}' follows that), or cancel the "
                    f"deletion ('kiln cluster cancel {there.name}')."
                )

    def _check_size(self, cluster: Cluster, before: Cluster | None) -> None:
        """Refuse a cluster that grows beyond the limits of groups and clusters."""
        count = cluster.spec.count
        if before is not None and count <= before.spec.count:
            return
        large = [group for group in cluster.spec.groups if group.shape.count > MOST_NODES]
        if large:
            raise InvalidCluster(
                problem for one in large for problem in check_count(one, one.shape.count)
            )
        self._limits.check_cluster(cluster.name, count)

    def _planned(
        self,
        desired: Desired,
        operation: Operation,
        cluster: Cluster,
        nodes: Sequence[Node],
        doomed: Mapping[str, str],
    ) -> tuple[ClusterPlan, list[str], Mapping[str, Any]]:
        """Return a plan, its holds, and the arguments with the nodes that the driver chose."""
        now, args = self._clock.time(), operation.args
        scale = self._scale_choice(cluster, nodes) if changes_spec(operation.kind) else None
        if scale is not None:
            held, _ = desired.plan(operation, nodes, now, doomed=doomed, choice=all_held())
            asked = [one for group in held.groups for one in questions(group)]
            if removed := removals(scale, cluster.spec, asked):
                args = {**args, 'remove': removed}
        operation = dataclasses.replace(operation, args=args)
        plan, holds = desired.plan(operation, nodes, now, doomed=doomed)
        return plan, holds, args

    def _desired(self, cluster: Cluster, *, driven: bool = True) -> Desired:
        if not driven:
            return Desired(cluster, Context(), self._zones)
        templates = self._drivers.changed_templates(cluster.pin)
        backend_of = chosen_by(self._drivers.open(cluster.pin), cluster)
        return Desired(cluster, Context(), self._zones, templates, backend_of=backend_of)

    # ---- reading -----------------------------------------------------------------

    def builds_nodes(self, request: requests.Declare) -> bool:
        """Return whether kiln's own engine would build the nodes of a cluster that is declared.

        :raises DriverSelectionError: no cluster driver can be chosen.
        """
        _, spec = self._declared(request)
        return self._drivers.plans_nodes(self._drivers.choose(spec, image=self._image(spec)).pin)

    def _declared(self, request: requests.Declare) -> tuple[ClusterTemplate | None, ClusterSpec]:
        """Return the template of a declared cluster, and the cluster with its values."""
        template = self._template(request)
        return template, combined(template, request.spec) if template else with_nodes(request.spec)

    def driver_trouble(self, cluster: Cluster) -> Cause | None:
        """Return why the driver of a cluster cannot be used; None if it can."""
        try:
            self._drivers.open(cluster.pin)
        except ClusterError as exc:
            return cause_of(exc)
        return None

    def made_with(self, cluster: Cluster) -> Mapping[str, str]:
        """Return the digest of the current spec by group; empty if only its driver knows."""
        # Each change of the cluster names an error of its driver.
        with contextlib.suppress(ClusterError):
            if self._drivers.plans_nodes(cluster.pin):
                desired = self._desired(cluster)
                return {one.name: desired.made_with(one.name) for one in cluster.spec.groups}
        return _NOBODY

    def _there(self, name: str) -> tuple[Cluster, tuple[Node, ...]]:
        cluster = self._store.clusters.get(name)
        nodes = self._store.nodes.of(cluster.id)
        return cluster, tuple(node for node in nodes if node.state is not NodeState.GONE)

    def _scale_choice(self, cluster: Cluster, nodes: Sequence[Node]) -> ScaleChoice | None:
        """Return the driver's choice; None if only the group's rules choose nodes."""
        driver = self._drivers.open(cluster.pin)
        if not nodes or not has_scale_manager(driver):
            return None
        context = self._contexts.context(
            cluster,
            nodes=existing(nodes),
            join_key=functools.partial(known_key, self._store, cluster.id),
            template=self._contexts.template(cluster),
        )
        return ScaleChoice(driver, context, cluster, self._meter)

    def _image(self, spec: ClusterSpec, named: str | None = None) -> Image | None:
        """Return the image that shows the cluster's operating system: its own, or a group's."""
        if self._drivers.has_own_engine(spec, named):
            # Which has images of its own, that no backend of the site need have.
            return None
        for machine in (spec.machine, *(group.machine for group in spec.groups)):
            if machine.image is not None:
                return self._images(over(spec.machine, machine))
        return None

    def _template(self, request: requests.Declare) -> ClusterTemplate | None:
        """Return the template that a declared cluster names: that of its file, or a saved one."""
        name = request.spec.template
        own = next((one for one in request.templates if one.name == name), None)
        return own or (None if name is None else self._store.templates.get(name))
