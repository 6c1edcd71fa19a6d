"""The clusters of a site, for who wants something of them."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from kiln.clock import Clock
from kiln.cluster_service.planning import Planning
from kiln.cluster_service.preflight import Preflight
from kiln.cluster_service.proposals import Proposal
from kiln.cluster_service.requests import Request
from kiln.cluster_service.views import ClusterView
from kiln.clusters.models import (
    Cluster,
    Event,
    Node,
    NodeState,
    Operation,
    OperationKind,
    Tombstone,
)
from kiln.clusters.spec import ClusterTemplate
from kiln.db.store import Store
from kiln.exceptions import OperationTimeout

_GONE: Mapping[NodeState, int] = MappingProxyType({})


class Clusters:
    """Plans, enters and shows; the engine of this or another process does the work.

    ``plan`` and ``apply`` are one: what is applied is the proposal that was
    shown, or nothing, if the cluster was changed since. May be used by several
    threads at once.
    """

    def __init__(
        self,
        store: Store,
        planning: Planning,
        preflight: Preflight,
        *,
        clock: Clock,
        offer: Callable[[str], None] = lambda cluster_id: None,
        operation_timeout_s: float = 3600.0,
    ) -> None:
        """Take the parts.

        :param offer: tells who works on clusters that there is something to do.
        """
        self._store = store
        self._planning = planning
        self._preflight = preflight
        self._clock = clock
        self._offer = offer
        self._operation_timeout_s = operation_timeout_s

    # ---- to be done ----------------------------------------------------------------

    def plan(self, request: Request) -> Proposal:
        """Return what a request would do, once all that have a say agree to it.

        Changes nothing, and may be repeated. Blocks while backends are asked
        whether they have the flavors, images and zones of new nodes.

        :raises InvalidCluster: it cannot be, with a problem for each mistake.
        :raises ClusterNotFound: there is no such cluster, group, node or template.
        :raises DriverSelectionError: no cluster driver can be chosen, or its is gone.
        :raises AmphoraComputeError: a backend cannot be asked now.
        """
        proposal = self._planning.propose(request)
        # Whatever has become of its driver, a cluster can be deleted.
        if proposal.kind is not OperationKind.DELETE:
            self._preflight.check(proposal)
        return proposal

    def apply(
        self, proposal: Proposal, *, timeout_s: float | None = None, rollback: bool = False
    ) -> Operation:
        """Enter what was proposed; return its operation, which is in the store by then.

        :param timeout_s: after so many seconds the operation has failed; by default
            what the cluster or the site allows.
        :param rollback: a change that fails brings the cluster back to what it was.
        :raises ClusterChanged: the cluster was changed since the proposal was made.
        :raises ClusterBusy: another operation is under way.
        :raises ClusterExists: there is one of the name by now.
        """
        operation = self._operation(proposal, timeout_s, rollback=rollback)
        cluster, before = proposal.cluster, proposal.before
        if before is None:
            self._store.clusters.create(cluster, operation)
        elif proposal.changes_spec:
            moved = cluster.pin != before.pin
            self._store.clusters.change(
                cluster.id,
                cluster.spec,
                generation=before.generation,
                operation=operation,
                doomed=proposal.doomed,
                pin=cluster.pin if moved else None,
                decision=cluster.decision if moved else None,
            )
            operation = dataclasses.replace(operation, generation=cluster.generation)
        else:
            # Nothing may keep a cluster from being deleted.
            supersede = proposal.kind is OperationKind.DELETE
            self._store.operations.submit(operation, supersede=supersede)
        self._offer(cluster.id)
        return operation

    def _operation(
        self, proposal: Proposal, timeout_s: float | None, *, rollback: bool
    ) -> Operation:
        now, cluster = self._clock.time(), proposal.cluster
        args = dict(proposal.args)
        if rollback and proposal.changes_spec and proposal.before is not None:
            args['rollback'] = True
        return Operation(
            id=str(uuid.uuid4()),
            cluster_id=cluster.id,
            kind=proposal.kind,
            args=args,
            generation=cluster.generation,
            created_at=now,
            deadline_at=now + self._allowed_s(cluster, proposal.kind, timeout_s),
        )

    def _allowed_s(self, cluster: Cluster, kind: OperationKind, wished_s: float | None) -> float:
        if wished_s is not None:
            return wished_s
        creating = kind is OperationKind.CREATE
        return cluster.spec.create_timeout_s if creating else self._operation_timeout_s

    def retry(self, cluster: str, *, timeout_s: float | None = None) -> Operation:
        """Have the newest operation go on, which has failed or was cancelled; return it.

        What it has done stays done: it goes on to what the cluster is declared to be,
        and calls a hook that failed again, under the same key.

        :param timeout_s: how long it may take from now on; by default what the cluster
            or the site allows.
        :raises ClusterChanged: it came to another end, so there is nothing to go on with.
        :raises ClusterBusy: it is under way.
        :raises ClusterNotFound: there is no such cluster.
        """
        there = self._store.clusters.get(cluster)
        (newest,) = self._store.operations.of(there.id, limit=1)
        allowed_s = self._allowed_s(there, newest.kind, timeout_s)
        deadline_at = self._clock.time() + allowed_s
        operation = self._store.operations.reopen(newest.id, deadline_at=deadline_at)
        message = f'{operation.kind.value} is taken up again'
        self._store.events.add(
            Event(cluster_id=there.id, kind='operation-retried', message=message,
                  operation_id=operation.id)
        )  # fmt: skip
        self._offer(there.id)
        return operation

    def pause(self, cluster: str) -> Cluster:
        """Have nothing begun for a cluster any more; safe to repeat."""
        return self._set_paused(cluster, True)

    def resume(self, cluster: str) -> Cluster:
        """Go on with a paused cluster; safe to repeat."""
        return self._set_paused(cluster, False)

    def _set_paused(self, name: str, paused: bool) -> Cluster:
        clusters = self._store.clusters
        there = clusters.get(name)
        changed = (clusters.pause if paused else clusters.resume)(there.id)
        if there.paused is not paused:
            word = 'paused' if paused else 'resumed'
            event = Event(cluster_id=there.id, kind=word, message=f'{there.name} was {word}')
            self._store.events.add(event)
        self._offer(there.id)
        return changed

    def cancel(self, cluster: str) -> tuple[Operation, ...]:
        """Have what is under way for a cluster stopped; return it, which may be nothing.

        Returns before it has stopped. What was made stays: the next operation goes
        on from there.
        """
        there = self._store.clusters.get(cluster)
        stopping = self._store.operations.open(there.id)
        cancelled = tuple(self._store.operations.cancel(one.id) for one in stopping)
        self._offer(there.id)
        return cancelled

    def templates(self) -> tuple[ClusterTemplate, ...]:
        """Return all templates by name."""
        return self._store.templates.list()

    def template(self, name: str) -> ClusterTemplate:
        """Return a template.

        :raises ClusterNotFound: there is none of the name.
        """
        return self._store.templates.get(name)

    def remove_template(self, name: str) -> None:
        """Remove a template; safe to repeat.

        :raises ClusterError: a cluster is made from it.
        """
        self._store.templates.remove(name)

    def save_template(self, template: ClusterTemplate) -> None:
        """Keep a template, in the place of one that has its name; safe to repeat."""
        self._store.templates.save(template)

    # ---- to be seen ----------------------------------------------------------------

    def list(self) -> tuple[ClusterView, ...]:
        """Return all clusters by name; of their nodes only the counts."""
        counts, newest = self._store.nodes.counts(), self._store.operations.newest()
        return tuple(
            ClusterView(
                cluster=cluster,
                operation=newest.get(cluster.id),
                counts=counts.get(cluster.id, _GONE),
            )
            for cluster in self._store.clusters.list()
        )

    def show(self, cluster: str) -> ClusterView:
        """Return a cluster with its nodes and its newest operation.

        :raises ClusterNotFound: there is none.
        """
        there = self._store.clusters.get(cluster)
        nodes = tuple(
            node for node in self._store.nodes.of(there.id) if node.state is not NodeState.GONE
        )
        newest = self._store.operations.of(there.id, limit=1)
        return ClusterView.of(there, nodes, newest[0] if newest else None)

    def worker(self, cluster: str) -> str | None:
        """Return who works on a cluster at this moment; None if nobody does.

        :raises ClusterNotFound: there is none.
        """
        lease = self._store.leases.get(self._store.clusters.get(cluster).id)
        held = lease is not None and lease.expires_at > self._clock.time()
        return lease.owner or None if lease is not None and held else None

    def node(self, cluster: str, node: str) -> Node:
        """Return a node of a cluster, also one that is gone.

        :raises ClusterNotFound: there is none.
        """
        return self._store.nodes.get(self._store.clusters.get(cluster).id, node)

    def operation(self, operation_id: str) -> Operation:
        """Return an operation, also one of a cluster that is gone.

        :raises ClusterNotFound: there is none.
        """
        return self._store.operations.get(operation_id)

    def wait(self, operation_id: str, *, timeout_s: float, poll_s: float = 0.2) -> Operation:
        """Return an operation once it has ended, whoever works on it.

        :raises OperationTimeout: it has not ended in time; it goes on.
        """
        give_up = self._clock.monotonic() + timeout_s
        while True:
            operation = self.operation(operation_id)
            if operation.state.ended:
                return operation
            left_s = give_up - self._clock.monotonic()
            if left_s <= 0:
                raise OperationTimeout(
                    f'Cannot wait longer for {operation.kind.value} {operation_id}: it is '
                    f'{operation.state.value}, and goes on.'
                )
            self._clock.sleep(min(poll_s, left_s))

    def operations(self, cluster: str) -> tuple[Operation, ...]:
        """Return what was done to a cluster, the newest first."""
        return self._store.operations.of(self._store.clusters.get(cluster).id)

    def receipt(self, cluster: str) -> Tombstone:
        """Return the proof that nothing is left of a cluster that was deleted.

        :raises ClusterNotFound: none of the name was deleted, or too long ago.
        """
        return self._store.receipts.get(cluster)

    def last_event(self) -> int:
        """Return the number of the newest event; what happens from now on has a higher one."""
        return self._store.events.last_seq()

    def events(self, *, after: int = 0, cluster_id: str | None = None) -> Iterator[Event]:
        """Yield what has happened since an event, and end with the last there is."""
        while found := self._store.events.after(after, cluster_id=cluster_id):
            yield from found
            after = found[-1].seq
