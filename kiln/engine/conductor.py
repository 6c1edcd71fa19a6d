"""The conductor: the thread that holds leases and runs the rounds of clusters."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterable

from kiln.clock import ClockEvent
from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.clusters.exceptions import ClusterError, ClusterNotFound, LeaseLost, StoreError
from kiln.clusters.models import Lease, StepState
from kiln.engine.cluster.absent_driver import AbsentDriver, deletes_without
from kiln.engine.cluster.driver_worker import DriverWorker
from kiln.engine.cluster.held_lease import HeldLease
from kiln.engine.cluster.node_worker import NodeWorker
from kiln.engine.cluster.worker import Worker
from kiln.engine.context import Parts
from kiln.engine.health.standing_check import StandingCheck
from kiln.engine.work_sources.base import WorkSource
from kiln.engine.work_sources.database import DatabaseSource

LOG = logging.getLogger(__name__)

Result = Callable[[], object]

#: Seconds until a cluster that could not be started here is tried again.
SHUN_S = 30.0


class Conductor:
    """Works on the clusters whose leases it gets, until it is closed.

    A crash at any time loses nothing: the next conductor that claims the leases continues
    from the store. Without a ``source`` the store is polled for work. The caller that
    passes a source closes it, after the conductor.
    """

    def __init__(
        self, parts: Parts, *, owner: str | None = None, source: WorkSource | None = None
    ) -> None:
        self._parts = parts
        self._source = source or DatabaseSource(parts.store)
        # Unique to this process, so a lease of an earlier process is never mistaken for its own.
        self._owner = owner or f'{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:8]}'
        # Results arrive with the lease under which the action was started.
        self._inbox: deque[tuple[Lease, Result] | None] = deque()
        self._arrived = threading.Condition()
        # By cluster: the leases that are held, and the work that has begun under them.
        self._held: dict[str, HeldLease] = {}
        self._works: dict[str, Worker] = {}
        self._watch = StandingCheck(parts, self._owner, self._source.offer)
        # Clusters whose leases are held, but that wait for requests in flight, and until when.
        self._quiet: dict[str, float] = {}
        # Clusters that could not be started here, and until when they are skipped.
        self._shunned: dict[str, float] = {}
        self._renew_at = 0.0
        self._poll_at = 0.0
        self._closed = ClockEvent(parts.clock)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name='kiln-conductor', daemon=True)
        self._thread.start()
        self._source.start(self.wake)
        self._watch.start()

    def wake(self) -> None:
        """Poll the store now: an operation was submitted."""
        self._put(None)

    def close(self, wait_s: float = 10.0) -> None:
        """Stop; what is under way in backends continues, and is found again later."""
        self._closed.set()
        self._put(None)
        self._watch.close(wait_s)
        if self._thread is not None:
            self._thread.join(wait_s)
        for scope in list(self._works):
            self._let_go(scope)
        for scope in list(self._held):
            self._release(scope, unsettled=True)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._round()
            # A defect must not end the thread that works for all clusters.
            except Exception:
                LOG.exception('A round of the conductor failed')
                self._closed.wait(self._parts.settings.poll_s)

    def _round(self) -> None:
        results, woken = self._take()
        now = self._parts.clock.monotonic()
        if now >= self._renew_at:
            self._renew(now)
        if woken or now >= self._poll_at:
            self._poll_at = now + self._parts.settings.poll_s
            self._search_work()
        self._end_quiet(now)
        by_cluster: dict[str, list[Result]] = defaultdict(list)
        for lease, result in results:
            work = self._works.get(lease.scope)
            # What was started under an earlier lease is found again in the backend.
            if work is not None and work.held.lease.epoch == lease.epoch:
                by_cluster[lease.scope].append(result)
        due = {scope for scope, work in self._works.items() if work.due <= now}
        for scope in due | by_cluster.keys():
            self._run_round(scope, by_cluster[scope])

    def _put(self, one: tuple[Lease, Result] | None) -> None:
        with self._arrived:
            self._inbox.append(one)
            self._arrived.notify()

    def _take(self) -> tuple[list[tuple[Lease, Result]], bool]:
        """Wait for results; return all that have arrived, and whether work was submitted."""
        clock = self._parts.clock
        due = [work.due for work in self._works.values()]
        until = min([self._poll_at, self._renew_at, *due, *self._quiet.values()])
        with self._arrived:
            # Other threads that wait for the same time can wake this thread before it.
            while not self._inbox and (left_s := until - clock.monotonic()) > 0:
                clock.wait(self._arrived, left_s)
            arrived = list(self._inbox)
            self._inbox.clear()
        results = [one for one in arrived if one is not None]
        return results, len(results) < len(arrived)

    def _renew(self, now: float) -> None:
        settings = self._parts.settings
        self._renew_at = now + settings.lease_s / 3
        for scope, held in list(self._held.items()):
            try:
                held.renew()
            except LeaseLost as exc:
                self._lose(scope, exc)
            except StoreError as exc:
                # The lease can still be held for a while, and the store can come back.
                LOG.warning('Cannot renew the lease of cluster %s: %s', scope, exc)
                self._renew_at = now + min(settings.poll_s, settings.lease_s / 3)

    def _lose(self, scope: str, why: LeaseLost) -> None:
        LOG.warning('%s', why)
        for held in (self._held, self._works, self._quiet):
            held.pop(scope, None)

    def _search_work(self) -> None:
        for scope, work in list(self._works.items()):
            try:
                work.reload()
            except ClusterNotFound:
                self._let_go(scope)
                continue
            self._run_round(scope)
        now = self._parts.clock.monotonic()
        self._shunned = {scope: until for scope, until in self._shunned.items() if until > now}
        for scope in self._source.take(self._shunned.keys()):
            if scope not in self._held:
                self._claim(scope)

    def _claim(self, scope: str) -> None:
        store, settings = self._parts.store, self._parts.settings
        # The store decides, whatever the source reports.
        if not store.operations.has_work(scope):
            self._source.done(scope)
            return
        before = store.leases.get(scope)
        now = self._parts.clock.monotonic()
        lease = store.leases.claim(scope, self._owner, settings.lease_s)
        if lease is None:
            return
        taken_over = before is not None and before.owner and self._has_intents(scope)
        self._held[scope] = HeldLease(self._parts, lease, now + settings.lease_s)
        if before is not None and taken_over:
            # A request of its former owner can still be in flight.
            LOG.info('Cluster %s was taken over from %s: waiting %s s', scope, before.owner,
                     settings.quiesce_s)  # fmt: skip
            self._quiet[scope] = now + settings.quiesce_s
        else:
            self._begin(scope)

    def _end_quiet(self, now: float) -> None:
        for scope, end in list(self._quiet.items()):
            if end <= now:
                del self._quiet[scope]
                self._begin(scope)

    def _begin(self, scope: str) -> None:
        try:
            self._works[scope] = self._work_on(self._held[scope])
        except ClusterNotFound:
            self._release(scope)
            self._source.done(scope)
        except StoreError as exc:
            # Temporary: the next poll tries it again.
            LOG.warning('Cannot start work on cluster %s now: %s', scope, exc)
            self._release(scope, unsettled=True)
        # Its driver can be missing here and installed on another host.
        except Exception:
            LOG.exception('Cannot work on cluster %s here for now', scope)
            self._release(scope, unsettled=True)
            self._shunned[scope] = self._parts.clock.monotonic() + SHUN_S
        else:
            self._run_round(scope)

    def _work_on(self, held: HeldLease) -> Worker:
        lease = held.lease
        cluster = self._parts.store.clusters.get(lease.scope)
        driver: ClusterDriver
        try:
            driver = self._parts.drivers.open(cluster.pin)
        except ClusterError as exc:
            under_way = self._parts.store.operations.open(cluster.id)
            if not deletes_without(cluster, under_way[0] if under_way else None):
                raise
            LOG.warning('Deleting cluster %s without its driver: %s', cluster.name, exc)
            driver = AbsentDriver()

        def call_soon(result: Result) -> None:
            self._put((lease, result))

        if isinstance(driver, NodeClusterDriver):
            return NodeWorker(self._parts, held, driver, call_soon)
        return DriverWorker(self._parts, held, driver, call_soon)

    def _has_intents(self, scope: str) -> bool:
        store = self._parts.store
        return any(
            step.state is StepState.INTENT
            for operation in store.operations.open(scope)
            for step in store.journal.open(operation.id)
        )

    def _run_round(self, scope: str, results: Iterable[Result] = ()) -> None:
        work = self._works.get(scope)
        if work is None:
            return
        try:
            work.run_round(results)
        except LeaseLost as exc:
            self._lose(scope, exc)
            return
        # Whatever failed, nothing that was not written has happened: the next round begins
        # with what is in the store.
        except Exception:
            LOG.exception('A round of cluster %s failed; starting again from the store', scope)
            self._let_go(scope)
            return
        if work.idle or work.moved:
            self._let_go(scope)

    def _let_go(self, scope: str) -> None:
        work = self._works.pop(scope)
        self._release(scope, unsettled=not work.idle)
        if work.idle:
            self._source.done(scope)

    def _release(self, scope: str, *, unsettled: bool = False) -> None:
        held = self._held.pop(scope)
        with contextlib.suppress(ClusterError):
            self._parts.store.leases.release(held.lease, unsettled=unsettled)
