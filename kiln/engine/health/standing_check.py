"""The standing check: polls clusters without an operation, and replaces dead nodes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import threading
import uuid
from collections.abc import Callable, Mapping

from kiln.clock import ClockEvent, Deadline
from kiln.clusters.exceptions import ClusterBusy, ClusterError, ClusterNotFound, LeaseLost
from kiln.clusters.models import (
    Cluster,
    Lease,
    Node,
    NodeState,
    Operation,
    OperationKind,
    OperationState,
)
from kiln.engine.context import Parts
from kiln.engine.health.driver_upkeep import DriverUpkeep, borrowed
from kiln.engine.health.machine_state import MachinePoller, PolledState, apply, watched
from kiln.engine.health.outages import find_outages
from kiln.engine.health.silence import SilentBackends
from kiln.engine.nodes.node_table import NodeTable
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.changes import going
from kiln.engine.plan.repair import remediate
from kiln.engine.plan.rollout import MAKING

LOG = logging.getLogger(__name__)

#: The conductor that holds the lease of this scope watches for all conductors of a site.
SCOPE = 'kiln.watch'
#: Seconds from the start to the first poll.
_FIRST_S = 2.0
#: Seconds after which a poll that has not ended is taken for one that never will.
LONGEST_POLL_S = 600.0
#: The reason in the arguments of an operation that kiln itself submitted.
REMEDIATION = 'remediation'
_POLL = 'A poll of the settled clusters failed'
_SETTLED = frozenset({NodeState.GONE, NodeState.READY})


@dataclasses.dataclass(frozen=True, slots=True)
class _Settled:
    """A cluster without an operation under way, as of the end of its last operation."""

    newest: Operation
    nodes: tuple[Node, ...]


class StandingCheck:
    """Polls all settled clusters of a site every ``watch_s`` seconds, and has drivers tend them.

    A poll costs one call per backend and one query of the store; more only for what has
    changed. One of several conductors watches; if it dies, another one continues.
    """

    def __init__(self, parts: Parts, owner: str, offer: Callable[[str], None]) -> None:
        self._parts = parts
        # Its leases are separate, or the conductor would take them for its own.
        self._owner = f'{owner}.watch'
        self._offer = offer
        self._poller = MachinePoller(parts.backends)
        self._silence = SilentBackends(parts)
        self._tending = DriverUpkeep(parts, self._owner)
        self._settled: dict[str, _Settled] = {}
        #: The first and the last node on each backend in use, as of an event.
        self._checked: tuple[Node, ...] = ()
        self._seq = -1
        self._lease: Lease | None = None
        self._failures = parts.failures
        self._closed = ClockEvent(parts.clock)
        self._thread: threading.Thread | None = None
        self._turned_at = parts.clock.monotonic()
        #: When a poll was last done, since the epoch; None if another conductor polls.
        self.polled_at: float | None = None

    @property
    def silent_s(self) -> float:
        """Seconds since the last turn was done; a poll of slow backends can take minutes."""
        return self._parts.clock.monotonic() - self._turned_at

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name='kiln-watch', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Begin no other poll; return at once."""
        self._closed.set()
        self._tending.close()

    def join(self, wait_s: float) -> None:
        """Wait for the poll under way, after which the watch is left to another conductor."""
        if self._thread is not None:
            self._thread.join(wait_s)
        else:
            self._release()

    def close(self, wait_s: float = 10.0) -> None:
        """Stop, and release the watch to another conductor."""
        self.stop()
        self.join(wait_s)

    def poll(self) -> None:
        """Poll once, write what is new, and replace the nodes that are to be given up.

        Blocks until the backends have answered; safe to repeat.
        """
        if not self._has_watch():
            self.polled_at = None
        else:
            self._poll()
            self.polled_at = self._parts.clock.time()
        self._turned_at = self._parts.clock.monotonic()

    def _poll(self) -> None:
        self._refresh()
        nodes = [node for one in self._settled.values() for node in one.nodes]
        report = functools.partial(self._silence.report, self._nodes_by_cluster())
        polled = self._poller.poll(nodes, report).polled
        for cluster_id, one in list(self._settled.items()):
            seen = {node.id: polled[node.id] for node in one.nodes if node.id in polled}
            # Its clock was set back.
            early = any(node.since > self._parts.clock.time() for node in one.nodes)
            if seen or early:
                self._write(cluster_id, one, seen)
        for cluster_id, one in list(self._settled.items()):
            if any(node.state not in _SETTLED for node in one.nodes):
                self._remedy(cluster_id, one.newest)
        self._tending.begin({key: one.newest for key, one in self._settled.items()})

    def _nodes_by_cluster(self) -> Mapping[str, tuple[Node, ...]]:
        return {cluster_id: one.nodes for cluster_id, one in self._settled.items()}

    def _run(self) -> None:
        clock, watch_s = self._parts.clock, self._parts.settings.watch_s
        # Soon, so that it is known who watches; a command that ends at once polls nothing.
        due = Deadline.after(min(_FIRST_S, watch_s), clock)
        while not self._closed.wait(self._pause_s(due)):
            try:
                if due.passed or self.check_backends():
                    self.poll()
                    self._failures.succeeded(_POLL)
            # A defect must not end the thread that watches all clusters.
            except Exception as exc:
                self._failures.failed(_POLL, exc)
            if due.passed:
                due = Deadline.after(watch_s, clock)
        self._release()

    def _pause_s(self, due: Deadline) -> float:
        left_s = max(0.0, due.remaining_s())
        return min(left_s, self._parts.settings.outage_check_s or left_s)

    def check_backends(self) -> bool:
        """Report the backends that no longer answer; return True if a silent one does again.

        Blocks for a few seconds at most; one call per backend. Only a poll can tell whether an
        outage is over, because a backend can answer about one machine and not about all.
        """
        if self._lease is None:
            return False
        # A cluster that has settled since the last poll counts, too.
        if (seq := self._parts.store.events.last_seq()) != self._seq:
            self._refresh()
            nodes = watched(node for one in self._settled.values() for node in one.nodes)
            ends = ({node.backend: node for node in some} for some in (reversed(nodes), nodes))
            self._checked = tuple(node for one in ends for node in one.values())
            self._seq = seq
        known = self._parts.outages.silent
        found = find_outages(self._parts.backends, self._checked, known)
        for backend, cause in found.items():
            self._silence.report(self._nodes_by_cluster(), backend, cause)
        checked = {node.backend for node in self._checked}
        return bool(known & checked - found.keys())

    def _release(self) -> None:
        if self._lease is not None:
            with contextlib.suppress(ClusterError):
                self._parts.store.leases.release(self._lease)
            self._lease = None

    def renew(self) -> None:
        """Keep the watch while a poll waits for silent backends; called by the conductor.

        Otherwise its lease would run out, as if this conductor had died. A poll that never ends
        is left to another conductor.
        """
        lease = self._lease
        # Between two polls nothing has to be written: the next one renews it in time.
        polling = self._parts.settings.watch_s < self.silent_s <= LONGEST_POLL_S
        if lease is None or not polling:
            return
        with contextlib.suppress(LeaseLost):
            renewed = self._parts.store.leases.renew(lease, self._term_s)
            # Only if the thread that polls has not renewed or released it meanwhile.
            if self._lease is lease:
                self._lease = renewed

    @property
    def _term_s(self) -> float:
        return 3 * self._parts.settings.watch_s

    def _has_watch(self) -> bool:
        leases, term_s = self._parts.store.leases, self._term_s
        if self._lease is not None:
            try:
                self._lease = leases.renew(self._lease, term_s)
            except LeaseLost:
                self._lease = None
        if self._lease is None:
            leases.shorten(term_s, scope=SCOPE)
            self._lease = leases.claim(SCOPE, self._owner, term_s)
            # Another conductor can have changed what is remembered here.
            self._settled.clear()
            if self._lease is not None:
                self._silence.load()
        return self._lease is not None

    def _refresh(self) -> None:
        """Update the nodes of settled clusters; read only those that had an operation."""
        newest = {
            cluster_id: operation
            for cluster_id, operation in self._parts.store.operations.newest().items()
            if operation.state.ended
        }
        self._settled = {
            cluster_id: known
            if (known := self._settled.get(cluster_id)) and known.newest == operation
            else _Settled(operation, self._parts.store.nodes.of(cluster_id))
            for cluster_id, operation in newest.items()
        }

    def _write(self, cluster_id: str, one: _Settled, polled: Mapping[str, PolledState]) -> None:
        store = self._parts.store
        with (
            contextlib.suppress(ClusterNotFound),
            borrowed(self._parts, cluster_id, self._owner) as lease,
        ):
            # The conductor that works on the cluster polls its machines itself.
            if lease is None:
                return
            tx = Transaction(store.clusters.get(cluster_id), self._parts.clock)
            table = NodeTable(tx, store.nodes.of(cluster_id))
            table.follow_clock()
            apply(tx, table, polled)
            tx.commit(store, lease)
            self._settled[cluster_id] = _Settled(one.newest, tuple(table.nodes()))

    def _remedy(self, cluster_id: str, newest: Operation) -> None:
        try:
            cluster = self._parts.store.clusters.get(cluster_id)
        except ClusterNotFound:
            return
        now = self._parts.clock.time()
        if not may_remedy(cluster, newest, self._settled[cluster_id].nodes, now):
            return
        operation = Operation(
            id=str(uuid.uuid4()),
            cluster_id=cluster_id,
            kind=OperationKind.REPLACE,
            args={'reason': REMEDIATION},
            generation=cluster.generation,
            deadline_at=now + cluster.spec.create_timeout_s,
            created_at=now,
        )
        # An operation that someone submits meanwhile is first, and heals the cluster as well.
        with contextlib.suppress(ClusterBusy, ClusterNotFound):
            self._parts.store.operations.submit(operation)
            LOG.info('Cluster %s has dead nodes; operation %s replaces them', cluster.name,
                     operation.id)  # fmt: skip
            self._offer(cluster_id)


def may_remedy(cluster: Cluster, newest: Operation, nodes: tuple[Node, ...], now: float) -> bool:
    """Return whether nodes of a settled cluster are to be replaced now; pure.

    This includes nodes that a cancelled reboot left half-way. A cluster that is not in its
    last desired state is left alone: replacing a node there would continue what failed or
    was cancelled. It is also left alone for a while after a replacement that failed.
    """
    if cluster.paused or cluster.former != cluster.aim:
        return False
    failed = newest.args.get('reason') == REMEDIATION
    failed = failed and newest.state is not OperationState.SUCCEEDED
    for group in cluster.spec.groups:
        mine = [node for node in nodes if node.group == group.name]
        pause_s = group.health.unhealthy_after_s if failed else 0.0
        # A clock that was set back ends the pause.
        if 0.0 <= now - (newest.ended_at or 0.0) < pause_s:
            continue
        halfway = any(node.state in MAKING and not going(node) for node in mine)
        if halfway or remediate(group, mine, now).victims:
            return True
    return False
