"""The adopt operation: takes an existing machine into a group as a node."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection
from types import MappingProxyType
from typing import Any

from kiln.clusters.models import Cause, Cluster, Node, NodeState, Operation
from kiln.clusters.spec import ClusterSpec, NodeGroupSpec, Place, Shape, ZoneRule
from kiln.engine.context import Backends
from kiln.engine.nodes.node_table import NodeTable
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.counts import check_count
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind, cause_of
from kiln.engine.plan.names import Naming
from kiln.engine.results import ActionResult
from kiln.models import Amphora, State


class Adoption:
    """Reads the machine, then writes node and count in one commit, or returns why not.

    The count of the group grows by one; otherwise the next operation would remove a node.
    A machine that is already a node of the cluster is not adopted twice, so the operation
    is safe to repeat after a crash.
    """

    def __init__(
        self,
        operation: Operation,
        backends: Backends,
        naming: Naming,
        tell: Callable[[ActionResult], None],
    ) -> None:
        self._operation = operation
        self._backends = backends
        self._naming = naming
        self._tell = tell
        self._news: ActionResult | None = None
        #: True while the machine is being read.
        self.busy = False

    @property
    def _compute_id(self) -> str:
        return str(self._operation.args.get('compute_id', ''))

    @property
    def _group(self) -> str:
        return str(self._operation.args.get('group', ''))

    def learn(self, news: ActionResult) -> None:
        """Take in the backend's result for the machine."""
        self.busy, self._news = False, news

    def is_done(self, table: NodeTable) -> bool:
        """Return whether the machine is a node."""
        return any(node.compute_id == self._compute_id for node in table.nodes())

    def go_on(
        self,
        tx: Transaction,
        table: NodeTable,
        cluster: Cluster,
        desired: Desired,
        known: Callable[[str, str], Collection[str]],
    ) -> Cause | None:
        """Read the machine, or adopt it; return why that is not possible.

        :param known: returns the ids of a kind that a backend has for clusters.
        """
        group = cluster.spec.group(self._group)
        if group is None:
            return _refused(f'Cluster {cluster.name} has no group {self._group!r}.')
        if problems := check_count(group, group.shape.count + 1):
            return _refused(problems[0].message)
        machine = desired.machine(group.name)
        backend = self._backends.get(machine.compute_driver).name
        if self._news is None:
            if not self.busy:
                self.busy = True
                tx.launches.append(functools.partial(self._look, backend))
            return None
        if self._news.error is not None:
            return cause_of(self._news.error)
        amphora: Amphora = self._news.value
        owner = self._backends.get(backend).driver.owner
        if why := unfit(amphora, owner, known(backend, 'server')):
            return _refused(f'Cannot adopt machine {amphora.id} of backend {backend}: {why}.')
        place = place_of(group.shape, amphora, machine.flavor)
        name = amphora.name
        if not name or name in table.names:
            name = self._naming.new_name(cluster.name, group.name, table.names)
        node = Node(
            id=str(self._operation.args.get('node') or self._naming.new_id()),
            cluster_id=cluster.id,
            group=group.name,
            name=name,
            place=place,
            backend=backend,
            # It can still be starting; its driver decides when it is ready.
            state=NodeState.BOOTING,
            compute_id=amphora.id,
            created_at=tx.now,
            since=tx.now,
        )
        table.add(tx, node)
        tx.accept(node, amphora.id)
        spec = _grown_spec(cluster.spec, group, place)
        tx.change_aim(dataclasses.replace(cluster.aim, spec=spec), cluster.generation)
        tx.tell('node-adopted', f'{node.name} is now machine {amphora.id}', node)
        return None

    def _look(self, backend: str) -> None:
        def done(found: Any) -> None:
            error = found.exception()
            value = None if error is not None else found.result()
            self._tell(
                ActionResult(self._operation.cluster_id, None, ActionKind.ADOPT, value, error)
            )

        try:
            found = self._backends.get(backend).get_amphora(amphora_id=self._compute_id)
        # Whatever fails, the round must receive a result, so that it stops waiting.
        except Exception as exc:
            self._tell(ActionResult(self._operation.cluster_id, None, ActionKind.ADOPT, error=exc))
        else:
            found.add_done_callback(done)


def unfit(amphora: Amphora, owner: str, known: Collection[str]) -> str:
    """Return why a machine cannot become a node; empty if it can; pure."""
    if amphora.owner != owner:
        return f'it belongs to {amphora.owner or "nobody"}, and this site is {owner}'
    if amphora.id in known:
        return 'it is already a node of a cluster'
    if amphora.state not in (State.ACTIVE, State.BUILDING, State.PENDING):
        return f'it is {amphora.state.value}'
    return ''


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
