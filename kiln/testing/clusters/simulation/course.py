"""Course of one cluster from creation to receipt: operations and their endings."""

from __future__ import annotations

import collections
import dataclasses
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.clusters.models import Node, NodeState, Operation, OperationKind
from kiln.clusters.spec import ClusterSpec, MachineSpec, NodeGroupSpec
from kiln.db.store import Store
from kiln.models import Amphora
from kiln.testing.clusters import samples
from kiln.testing.clusters.simulation.operations import Row
from kiln.testing.clusters.simulation.site import Site


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """State of cloud and store after an operation; equal if nothing differs.

    Values that differ between two lives, such as ids, are left out.
    """

    operation: str
    #: Why the operation failed; empty if it did not fail.
    cause: str
    generation: int
    #: Group, flavor, zone, state and build attempt of each node that is not gone.
    nodes: tuple[tuple[Any, ...], ...]
    #: Number of nodes that are the same, with the same machine, as before the operation.
    kept: int
    #: Flavor, image and state of each machine of the cloud; the zone is left out, as the
    #: cloud can choose it.
    machines: tuple[tuple[Any, ...], ...]
    #: Nodes with two machines or no machine, orphaned machines, gaps in the receipt.
    wrongs: tuple[str, ...]
    #: Number of processes that crashed on the way.
    crashed: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """A cluster at a site, and its desired state; every method can be called repeatedly."""

    site: Site
    driver_class: Any
    machine: MachineSpec
    #: What differs after an upgrade.
    other: MachineSpec
    #: Initial number of nodes of the group that changes.
    count: int = 2
    #: The role of that group.
    role: str = 'worker'
    #: The nodes of other roles, which no operation adds to or takes from.
    beside: Mapping[str, int] = dataclasses.field(default_factory=dict)
    #: Seconds until an operation is abandoned.
    within_s: float = 60.0

    # ---- submitting operations -------------------------------------------------

    def ask(self, store: Store, row: Row) -> Operation:
        """Submit an operation to the store; needs no conductor."""
        now = time.time()
        nodes = self.nodes(store)
        named = row.named([node for node in nodes if node.group == samples.GROUP])
        operation = Operation(
            id=str(uuid.uuid4()),
            cluster_id=self.id_(store),
            kind=row.kind,
            args={'replace': named} if row.kind is OperationKind.REPLACE else {},
            created_at=now,
            deadline_at=now + self.within_s,
        )
        if row.kind is OperationKind.CREATE:
            made = samples.cluster(
                self.driver_class, self.machine, self.count, id_=operation.cluster_id
            )
            spec = dataclasses.replace(made.spec, groups=self._groups(self.count))
            made = dataclasses.replace(made, spec=spec)
            store.clusters.create(made, operation)
        elif row.grows is None and not row.renews:
            store.operations.submit(operation)
        else:
            there = store.clusters.get(operation.cluster_id)
            store.clusters.change(
                there.id,
                self._changed(there.spec, row, len(nodes) - sum(self.beside.values())),
                generation=there.generation,
                operation=operation,
                doomed=dict.fromkeys(named, 'asked for'),
            )
        return operation

    def _changed(self, spec: ClusterSpec, row: Row, count: int) -> ClusterSpec:
        if row.renews:
            spec = dataclasses.replace(spec, machine=samples.merged(spec.machine, self.other))
        if row.grows is not None:
            spec = dataclasses.replace(spec, groups=self._groups(count + row.grows))
        return spec

    def _groups(self, count: int) -> tuple[NodeGroupSpec, ...]:
        return (*samples.groups(self.beside), samples.group(count, self.role))

    def expire(self, store: Store) -> None:
        """Let the lease of a process that is dead end now, as it would by itself."""
        lease = store.leases.get(self.id_(store))
        if lease is not None:
            store.leases.release(lease, unsettled=True)

    # ---- reading the state -----------------------------------------------------

    def id_(self, store: Store) -> str:
        """Return the id of the cluster, or a new id if the cluster does not exist."""
        there = store.clusters.list()
        return there[0].id if there else str(uuid.uuid4())

    def nodes(self, store: Store) -> list[Node]:
        """Return the nodes that are not gone, oldest first."""
        there = store.clusters.list()
        found = store.nodes.of(there[0].id) if there else ()
        alive = [node for node in found if node.state is not NodeState.GONE]
        return sorted(alive, key=lambda node: (node.created_at, node.name))

    def ending(
        self, store: Store, operation: Operation, before: Sequence[Node], crashed: int = 0
    ) -> Ending:
        """Return the state of everything after an operation has ended."""
        ended = store.operations.get(operation.id)
        there = store.clusters.list()
        nodes = self.nodes(store)
        machines = self.site.machines()
        former = {(node.id, node.compute_id) for node in before}
        return Ending(
            operation=ended.state.value,
            cause=str(ended.cause or ''),
            generation=there[0].generation if there else 0,
            nodes=tuple(sorted((_told(node) for node in nodes), key=str)),
            kept=sum((node.id, node.compute_id) in former for node in nodes),
            machines=tuple(sorted((_seen(one) for one in machines), key=str)),
            wrongs=tuple(self._wrongs(store, operation, nodes, machines)),
            crashed=crashed,
        )

    def _wrongs(
        self,
        store: Store,
        operation: Operation,
        nodes: Sequence[Node],
        machines: Sequence[Amphora],
    ) -> Iterator[str]:
        known = {node.compute_id for node in nodes}
        names = collections.Counter(one.name for one in machines)
        yield from (f'{count} machines are called {name}' for name, count in names.items()
                    if count > 1)  # fmt: skip
        there = {one.id for one in machines}
        yield from (f'node {node.name} has no machine' for node in nodes
                    if node.compute_id not in there)  # fmt: skip
        yield from (
            f'machine {one.name} belongs to no node' for one in machines if one.id not in known
        )
        holdings = store.receipts.holdings(operation.cluster_id)
        held = {one.id for one in holdings if one.gone_at is None}
        yield from (f'the store has no record of machine {one}' for one in sorted(there - held))
        yield from (
            f'the store has no record that machine {one} is gone' for one in sorted(held - there)
        )


def _told(node: Node) -> tuple[Any, ...]:
    return node.group, node.place.flavor, node.place.zone, node.state.value, node.attempt


def _seen(one: Amphora) -> tuple[Any, ...]:
    return one.flavor, one.image_id, one.state.value
