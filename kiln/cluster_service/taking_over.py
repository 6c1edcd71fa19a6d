"""Creations that take machines over that exist: their nodes, as they will be."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kiln.clusters.exceptions import InvalidCluster, Problem
from kiln.clusters.models import Cluster, Node, NodeState
from kiln.engine.cluster.adopt import place_of, untakeable
from kiln.engine.plan.changes import ClusterPlan
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.taken import Taken
from kiln.exceptions import AmphoraComputeError
from kiln.models import Ability, Amphora

if TYPE_CHECKING:
    from kiln.compute.facade import Compute
    from kiln.db.store import Store
    from kiln.engine.driver_context import OpenBackends


class Taking:
    """Reads the machines that a cluster is to take over; changes nothing."""

    def __init__(
        self, cluster: Cluster, desired: Desired, store: Store, backends: OpenBackends
    ) -> None:
        self._cluster = cluster
        self._desired = desired
        self._store = store
        self._backends = backends
        self._problems: list[Problem] = []
        #: By backend, the machines of all clusters.
        self._known: dict[str, Collection[str]] = {}
        #: What differs from the file, and stays until the node is replaced.
        self.notices: list[str] = []

    def nodes(self, machines: Sequence[tuple[str, str]]) -> tuple[Node, ...]:
        """Return the nodes that machines become.

        :raises InvalidCluster: a machine cannot become one, or its group is too small.
        """
        # All are read at once.
        reads = [(one, self._ask(*one)) for one in machines]
        asked = [(one, self._checked(*one, read)) for one, read in reads if read is not None]
        nodes = tuple(self._node(*one, found) for one, found in asked if found is not None)
        for group in self._cluster.spec.groups:
            there = sum(name == group.name for name, _ in machines)
            if there > group.shape.count:
                self._problem(
                    group.name,
                    f'{there} machines are to be taken over, and its count is '
                    f'{group.shape.count}: none of them is removed',
                )
        if self._problems:
            raise InvalidCluster(dict.fromkeys(self._problems))
        return nodes

    def _ask(self, group: str, machine: str) -> Callable[[], Amphora] | None:
        """Begin to read a machine; return what waits for it, or None with a problem."""
        if self._cluster.spec.group(group) is None:
            self._problem(group, f'the cluster has no such group for machine {machine}')
            return None
        return self._compute(group).get_amphora(amphora_id=machine).result

    def _checked(self, group: str, machine: str, read: Callable[[], Amphora]) -> Amphora | None:
        """Return a machine that can be taken over; None with a problem."""
        compute = self._compute(group)
        try:
            found = read()
        except AmphoraComputeError as exc:
            if exc.retryable:
                raise
            self._problem(group, str(exc))
            return None
        if compute.name not in self._known:
            self._known[compute.name] = self._store.receipts.known(compute.name, 'server')
        why = untakeable(found, compute.driver.owner, self._known[compute.name])
        if not found.owner and Ability.CLAIM not in compute.capabilities().abilities:
            why = why or f'backend {compute.name} claims no machines of nobody'
        if why:
            self._problem(group, f'machine {machine} cannot be taken over: {why}')
            return None
        return found

    def _node(self, group_name: str, machine: str, found: Amphora) -> Node:
        group = self._cluster.spec.group(group_name)
        assert group is not None
        spec = self._desired.machine(group_name)
        name = found.name or machine
        for what, wanted, has in (
            ('flavor', spec.flavor, found.flavor), ('image', spec.image, found.image_id),
        ):  # fmt: skip
            if wanted and has and wanted != has:
                self.notices.append(
                    f'{name} has {what} {has}, and group {group_name} has {wanted}: it stays as '
                    f'it is until it is replaced'
                )
        return Node(
            id=str(uuid.uuid4()),
            cluster_id=self._cluster.id,
            group=group_name,
            name=name,
            place=place_of(group.shape, found, spec.flavor),
            backend=self._compute(group_name).name,
            state=NodeState.READY,
            compute_id=found.id,
        )

    def _compute(self, group: str) -> Compute:
        return self._backends.get(self._desired.machine(group).compute_driver)

    def _problem(self, group: str, message: str) -> None:
        self._problems.append(Problem(message=message, path=f'nodegroups[{group}]'))


def taken_of(nodes: Iterable[Node]) -> Iterator[Taken]:
    """Yield what an operation keeps of the machines that become nodes."""
    for node in nodes:
        assert node.compute_id is not None
        yield Taken(node.group, node.compute_id, node.id)


def refuse_losses(plan: ClusterPlan) -> None:
    """Return if a plan keeps all machines that are taken over.

    :raises InvalidCluster: some would be removed or replaced.
    """
    problems = [
        Problem(
            message=f'{len(group.removes) + len(group.replaces)} machines do not fit its flavors '
            f'and zones, and would be removed: declare the group as its machines are',
            path=f'nodegroups[{group.group}]',
        )
        for group in plan.groups
        if group.removes or group.replaces
    ]
    if problems:
        raise InvalidCluster(problems)
