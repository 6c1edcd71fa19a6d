"""The facade of a site's clusters: plan, apply and inspect."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from kiln.clock import Clock
from kiln.cluster_drivers.values import Loss
from kiln.cluster_service.planning import Planning
from kiln.cluster_service.preflight import Preflight
from kiln.cluster_service.proposals import Proposal
from kiln.cluster_service.requests import Declare, Request
from kiln.cluster_service.views import Attention, ClusterView
from kiln.clusters.limits import DEFAULT_LIMITS, NodeLimits
from kiln.clusters.models import (
    MACHINES_SEEN,
    MACHINES_UNSEEN,
    Cause,
    Cluster,
    Condition,
    ConditionKind,
    Event,
    Lease,
    Node,
    NodeState,
    Operation,
    OperationKind,
    Tombstone,
)
from kiln.db.records.room import Room
from kiln.db.store import Store
from kiln.engine.health.standing_check import SCOPE as WATCH
from kiln.engine.owners import has_died
from kiln.engine.plan.conditions import conditions

_GONE: Mapping[NodeState, int] = MappingProxyType({})


class Clusters:
    """Plans, submits and shows; the engine of this or another process does the work.

    ``plan`` and ``apply`` belong together: exactly the proposal that was shown is applied,
    or nothing, if the cluster was changed since. Can be used by several threads at once.
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
        limits: NodeLimits = DEFAULT_LIMITS,
        lease_s: float = 15.0,
    ) -> None:
        """Take the parts.

        :param offer: notifies the work source that a cluster has work.
        :param lease_s: the term of the leases that conductors hold.
        """
        self._store = store
        #: The templates of clusters, to list, get, save and remove.
        self.templates = store.templates
        self._planning = planning
        self._preflight = preflight
        self._clock = clock
        self._offer = offer
        self._operation_timeout_s = operation_timeout_s
        self._limits = limits
        self._lease_s = lease_s

    # ---- changes -------------------------------------------------------------------

    def plan(self, request: Request) -> Proposal:
        """Return what a request would do, once its driver and backends agree to it.

        Changes nothing, and can be repeated. Blocks while backends are queried for the
        flavors, images and zones of new nodes.

        :raises InvalidCluster: it is not valid, with a problem for each mistake.
        :raises TooManyNodes: the cluster, its owner or the site would have too many nodes.
        :raises ClusterNotFound: a cluster, group, node or template does not exist.
        :raises DriverSelectionError: no cluster driver can be chosen, or the cluster's is gone.
        :raises AmphoraComputeError: a backend cannot be queried now.
        """
        proposal = self._planning.propose(request)
        # A cluster can be deleted whatever has become of its driver.
        if proposal.kind is not OperationKind.DELETE:
            operation = self._operation(proposal, None, rollback=False)
            self._store.clusters.check_room(proposal.cluster, operation, self._limits)
            foreseen = self._preflight.check(proposal)
            notices = (*proposal.notices, *foreseen)
            losses = tuple(line for line in foreseen if isinstance(line, Loss))
            proposal = dataclasses.replace(proposal, notices=notices, losses=losses)
        return proposal

    def builds_nodes(self, request: Declare) -> bool:
        """Return whether kiln's own engine would build the nodes of a cluster that is declared.

        :raises InvalidCluster: it is not valid.
        :raises DriverSelectionError: no cluster driver can be chosen.
        """
        return self._planning.builds_nodes(request)

    def apply(
        self, proposal: Proposal, *, timeout_s: float | None = None, rollback: bool = False
    ) -> Operation:
        """Submit a proposal; return its operation, which is in the store by then.

        :param timeout_s: seconds after which the operation has failed; by default the limit
            of the cluster or the site.
        :param rollback: a change that fails returns the cluster to its former state.
        :raises ClusterChanged: the cluster was changed since the proposal was made.
        :raises ClusterBusy: another operation is under way.
        :raises ClusterExists: a cluster with the name exists by now.
        :raises TooManyNodes: others have taken the room for its nodes since.
        """
        operation = self._operation(proposal, timeout_s, rollback=rollback)
        cluster, before = proposal.cluster, proposal.before
        if before is None:
            self._store.clusters.create(cluster, operation, limits=self._limits)
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
                limits=self._limits,
            )
            operation = dataclasses.replace(operation, generation=cluster.generation)
        else:
            # A deletion must always be possible.
            supersede = proposal.kind is OperationKind.DELETE
            room = None if supersede else self._room(cluster, operation)
            operation = self._store.operations.submit(operation, supersede=supersede, room=room)
        self._offer(cluster.id)
        return operation

    def refuse_busy(self, proposal: Proposal) -> None:
        """Return if a proposal can be submitted now, as far as other operations matter.

        :raises ClusterBusy: another operation is under way.
        """
        if proposal.before is not None and proposal.kind is not OperationKind.DELETE:
            self._store.operations.refuse_other(proposal.cluster.id, proposal.kind)

    def _room(self, cluster: Cluster, operation: Operation) -> Room:
        return Room.for_operation(self._limits, cluster, operation)

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
        """Retry the newest operation, which failed or was cancelled; return it.

        What it has done stays done: it continues to the declared state of the cluster, and
        calls a hook that failed again, under the same key.

        :param timeout_s: how long it is allowed to take from now on; by default the limit of
            the cluster or the site.
        :raises ClusterChanged: it ended in another way, so it cannot be retried.
        :raises ClusterBusy: it is under way.
        :raises ClusterNotFound: the cluster does not exist.
        :raises TooManyNodes: others have taken the room for its nodes.
        """
        there = self._store.clusters.get(cluster)
        (newest,) = self._store.operations.of(there.id, limit=1)
        allowed_s = self._allowed_s(there, newest.kind, timeout_s)
        deadline_at = self._clock.time() + allowed_s
        room = self._room(there, newest)
        operation = self._store.operations.reopen(newest.id, deadline_at=deadline_at, room=room)
        message = f'{operation.kind.value} is retried'
        self._store.events.add(
            Event(cluster_id=there.id, kind='operation-retried', message=message,
                  operation_id=operation.id)
        )  # fmt: skip
        self._offer(there.id)
        return operation

    def pause(self, cluster: str) -> Cluster:
        """Pause the cluster: nothing more is started for it; safe to repeat."""
        return self._set_paused(cluster, True)

    def resume(self, cluster: str) -> Cluster:
        """Resume a paused cluster; safe to repeat."""
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
        """Stop what is under way for a cluster; return it, which can be nothing.

        Returns before it has stopped. What was built stays: the next operation continues
        from there.
        """
        there = self._store.clusters.get(cluster)
        stopping = self._store.operations.open(there.id)
        cancelled = tuple(self._store.operations.cancel(one.id) for one in stopping)
        self._offer(there.id)
        return cancelled

    # ---- inspection ----------------------------------------------------------------

    def list(self) -> tuple[ClusterView, ...]:
        """Return all clusters by name, with only the counts of their nodes."""
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

        :raises ClusterNotFound: the cluster does not exist.
        """
        there = self._store.clusters.get(cluster)
        nodes = tuple(
            node for node in self._store.nodes.of(there.id) if node.state is not NodeState.GONE
        )
        newest = self._store.operations.of(there.id, limit=1)
        return ClusterView.of(there, nodes, newest[0] if newest else None)

    def conditions(self, view: ClusterView) -> tuple[Condition, ...]:
        """Return the conditions of a cluster that :meth:`show` returned, each with its cause."""
        found = conditions(
            view.cluster,
            view.nodes or (),
            view.operation,
            self._clock.time(),
            lease=self._current(self._lease(view.cluster.id)),
            made_with=self._planning.made_with(view.cluster),
        )
        trouble = self.driver_trouble(view)
        blocked = (
            () if trouble is None else (Condition(kind=ConditionKind.BLOCKED, cause=trouble),)
        )
        return (*found, *blocked)

    def driver_trouble(self, view: ClusterView) -> Cause | None:
        """Return why the driver of a cluster cannot be used, so nothing can change; or None."""
        return self._planning.driver_trouble(view.cluster)

    def is_abandoned(self) -> bool:
        """Return True if a conductor watched the settled clusters, and none does now."""
        return self._store.leases.get(WATCH) is not None and not self._is_watched()

    def attention(self, cluster: str) -> Attention:
        """Return which conductor works on a cluster, and if one watches the site.

        :raises ClusterNotFound: the cluster does not exist.
        """
        now = self._store.leases.now()
        cluster_id = self._store.clusters.get(cluster).id
        nobody = Attention(watched=self._is_watched(), unseen=self._unseen(cluster_id))
        lease = self._store.leases.get(cluster_id)
        if lease is None or not lease.owner:
            return nobody
        died = has_died(lease.owner)
        if lease.expires_at <= now and not died:
            return nobody
        return dataclasses.replace(
            nobody,
            worker=lease.owner,
            died=died,
            # A lease that was ended before its time has no time of its renewal.
            silent_s=now - lease.expires_at + self._lease_s if lease.expires_at else None,
            expires_s=lease.expires_at - now,
        )

    def _unseen(self, cluster_id: str) -> Mapping[str, Cause]:
        """Return by backend why machines of a settled cluster cannot be polled."""
        kinds = (MACHINES_UNSEEN, MACHINES_SEEN)
        last: dict[str, Event] = {}
        for event in self._store.events.newest(kinds, cluster_id=cluster_id, limit=100):
            last.setdefault(str(event.facts.get('backend', '')), event)
        return {
            backend: Cause(code='not_seen', message=event.message)
            for backend, event in last.items()
            if event.kind == MACHINES_UNSEEN
        }

    def _lease(self, cluster_id: str) -> Lease | None:
        """Return the lease of a cluster; None if its owner has died, as if it had none."""
        lease = self._store.leases.get(cluster_id)
        return None if lease is None or has_died(lease.owner) else lease

    def _is_watched(self) -> bool:
        lease = self._current(self._lease(WATCH))
        return lease is not None and bool(lease.owner)

    def _current(self, lease: Lease | None) -> Lease | None:
        """Return a lease, or None if it has expired by the clock of the store."""
        expired = lease is not None and lease.expires_at <= self._store.leases.now()
        return None if expired else lease

    def node(self, cluster: str, node: str) -> Node:
        """Return a node of a cluster, even if it is gone.

        :raises ClusterNotFound: the node does not exist.
        """
        return self._store.nodes.get(self._store.clusters.get(cluster).id, node)

    def operation(self, operation_id: str) -> Operation:
        """Return an operation, even one of a deleted cluster.

        :raises ClusterNotFound: the operation does not exist.
        """
        return self._store.operations.get(operation_id)

    def receipt(self, cluster: str) -> Tombstone:
        """Return the receipt of a deleted cluster.

        :raises ClusterNotFound: no cluster of the name was deleted, or too long ago.
        """
        return self._store.receipts.get(cluster)

    def last_event(self) -> int:
        """Return the number of the newest event; later events have a higher one."""
        return self._store.events.last_seq()

    def events(self, *, after: int = 0, cluster_id: str | None = None) -> Iterator[Event]:
        """Yield the events after an event, and end with the newest one."""
        while found := self._store.events.after(after, cluster_id=cluster_id):
            yield from found
            after = found[-1].seq
