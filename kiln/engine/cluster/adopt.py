"""The adopt operation: takes an existing machine into a group as a node."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from types import MappingProxyType

from kiln.clusters.models import Cause, Node, NodeState, OperationState
from kiln.clusters.placing.counts import check_count
from kiln.clusters.spec import ClusterSpec, NodeGroupSpec, Place, Shape, ZoneRule
from kiln.engine.cluster.converge import Converge
from kiln.engine.health.machine_check import MachineCheck
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.plan.lifecycle import cause_of
from kiln.models import Amphora, State


class Adopt(Converge):
    """Reads the machine, writes node and count in one commit, then converges.

    The count of the group grows by one; otherwise the next operation would remove a node.
    A machine that is already a node of the cluster is not adopted twice, so the operation
    is safe to repeat after a crash.
    """

    def __init__(self, state: NodeClusterState, machines: MachineCheck) -> None:
        super().__init__(state, machines)
        args = self._tx.under_way.args
        self._compute_id = str(args.get('compute_id', ''))
        self._group = str(args.get('group', ''))
        self._reading = False
        self._found: Amphora | None = None
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        return self._reading or super().busy

    def step(self) -> bool:
        if any(node.compute_id == self._compute_id for node in self._nodes.nodes()):
            return super().step()
        if (cause := self._adopt()) is not None:
            self._tx.end(OperationState.FAILED, cause)
        return False

    def _adopt(self) -> Cause | None:
        """Read the machine, or adopt it; return why that is not possible."""
        cluster = self._tx.cluster
        group = cluster.spec.group(self._group)
        if group is None:
            return _refused(f'Cluster {cluster.name} has no group {self._group!r}.')
        if problems := check_count(group, group.shape.count + 1):
            return _refused(problems[0].message)
        if self._error is not None:
            return cause_of(self._error)
        if self._found is not None:
            return self._accept(group, self._found)
        if not self._reading:
            self._reading = True
            self._tx.launches.append(lambda: self._state.call(self._read, self._take))
        return None

    def _accept(self, group: NodeGroupSpec, amphora: Amphora) -> Cause | None:
        parts, cluster = self._state.parts, self._tx.cluster
        machine = self._state.desired.machine(group.name)
        compute = parts.backends.get(machine.compute_driver)
        known = parts.store.receipts.known(compute.name, 'server')
        if why := unfit(amphora, compute.driver.owner, known):
            return _refused(f'Cannot adopt machine {amphora.id} of backend {compute.name}: {why}.')
        node_id = str(self._tx.under_way.args.get('node') or parts.naming.new_id())
        node = node_of(self._state, group, amphora, node_id)
        self._nodes.add(node)
        self._tx.accept(node, amphora.id)
        spec = _grown_spec(cluster.spec, group, node.place)
        self._tx.goal = dataclasses.replace(cluster.aim, spec=spec)
        self._tx.event('node-adopted', f'{node.name} is now machine {amphora.id}', node)
        return None

    def _read(self) -> Amphora:
        machine = self._state.desired.machine(self._group)
        compute = self._state.parts.backends.get(machine.compute_driver)
        return compute.get_amphora(amphora_id=self._compute_id).result()

    def _take(self, found: Amphora | None, error: BaseException | None) -> None:
        self._reading, self._found, self._error = False, found, error


def node_of(state: NodeClusterState, group: NodeGroupSpec, amphora: Amphora, node_id: str) -> Node:
    """Return the node that a machine becomes; it keeps its name if no node has that."""
    cluster, names, machine = (
        state.tx.cluster,
        state.nodes.names,
        state.desired.machine(group.name),
    )
    name = amphora.name
    if not name or name in names:
        name = state.parts.naming.new_name(cluster.name, group.name, names)
    return Node(
        id=node_id,
        cluster_id=cluster.id,
        group=group.name,
        name=name,
        place=place_of(group.shape, amphora, machine.flavor),
        backend=state.parts.backends.get(machine.compute_driver).name,
        # It can still be starting; its driver decides when it is ready.
        state=NodeState.BOOTING,
        compute_id=amphora.id,
        created_at=state.tx.now,
        since=state.tx.now,
    )


def unfit(amphora: Amphora, owner: str, known: Collection[str]) -> str:
    """Return why a machine cannot become a node; empty if it can; pure."""
    if amphora.owner != owner:
        return f'it belongs to {amphora.owner or "nobody"}, and this site is {owner}'
    if amphora.id in known:
        return 'it is already a node of a cluster'
    if amphora.state not in (State.ACTIVE, State.BUILDING, State.PENDING):
        return f'it is {amphora.state.value}'
    return ''


def untakeable(amphora: Amphora, owner: str, known: Collection[str]) -> str:
    """Return why a machine cannot become a node, even if a claim makes it this site's; pure."""
    return unfit(dataclasses.replace(amphora, owner=amphora.owner or owner), owner, known)


def place_of(shape: Shape, amphora: Amphora, flavor: str | None) -> Place:
    """Return the place of a machine in a group, by what the group's shape counts; pure.

    :param flavor: the flavor of the group's machine, for a shape that counts no flavors.
    """
    counted = bool(shape.flavors or shape.placements)
    zoned = bool(shape.placements) or shape.zones.rule is not ZoneRule.ANY
    return Place(
        amphora.flavor if counted else flavor, amphora.availability_zone if zoned else None
    )


def grown(shape: Shape, place: Place) -> Shape:
    """Return a shape with one more node in a place; pure."""
    flavors, placements = dict(shape.flavors), dict(shape.placements)
    counts = dict(shape.zones.counts)
    if flavors and place.flavor is not None:
        flavors[place.flavor] = flavors.get(place.flavor, 0) + 1
    if placements:
        placements[place] = placements.get(place, 0) + 1
    if counts and place.zone is not None:
        counts[place.zone] = counts.get(place.zone, 0) + 1
    return dataclasses.replace(
        shape,
        count=shape.count + 1,
        flavors=MappingProxyType(flavors),
        zones=dataclasses.replace(shape.zones, counts=MappingProxyType(counts)),
        placements=MappingProxyType(placements),
    )


def _grown_spec(spec: ClusterSpec, group: NodeGroupSpec, place: Place) -> ClusterSpec:
    larger = dataclasses.replace(group, shape=grown(group.shape, place))
    groups = tuple(larger if one.name == group.name else one for one in spec.groups)
    return dataclasses.replace(spec, groups=groups)


def _refused(message: str) -> Cause:
    hint = 'Nothing was changed. kiln orphans lists what the backend has.'
    return Cause(code='not_adopted', message=message, hint=hint)
