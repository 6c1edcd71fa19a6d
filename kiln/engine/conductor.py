"""The conductor: the thread that holds leases and runs the rounds of clusters."""

from __future__ import annotations

import contextlib
import dataclasses
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


@dataclasses.dataclass(frozen=True, slots=True)
class _Held:
    """A lease, and the monotonic time until which it is certainly held."""

    lease: Lease
    sure_until: float


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
        self._works: dict[str, Worker] = {}
        self._watch = StandingCheck(parts, self._owner, self._source.offer)
        # Clusters whose leases are held, but that wait for requests in flight, and until when.
        self._quiet: dict[str, tuple[_Held, float]] = {}
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
        for held, _ in self._quiet.values():
            self._release(held.lease, unsettled=True)

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
            self._look_for_work()
        self._end_quiet(now)
        by_cluster: dict[str, list[Result]] = defaultdict(list)
        for lease, result in results:
            work = self._works.get(lease.scope)
            # What was started under an earlier lease is found again in the backend.
            if work is not None and work.lease.epoch == lease.epoch:
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
        until = min(
            [self._poll_at, self._renew_at, *(w.due for w in self._works.values()),
             *(end for _, end in self._quiet.values())]
        )  # fmt: skip
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
        for scope in [*self._works, *self._quiet]:
            try:
                self._renew_one(scope)
            except LeaseLost as exc:
                LOG.warning('%s', exc)
                self._works.pop(scope, None)
                self._quiet.pop(scope, None)
            except StoreError as exc:
                # The lease can still be held for a while, and the store can come back.
                LOG.warning('Cannot renew the lease of cluster %s: %s', scope, exc)
                self._renew_at = now + min(settings.poll_s, settings.lease_s / 3)

    def _renew_one(self, scope: str) -> None:
        leases, term_s = self._parts.store.leases, self._parts.settings.lease_s
        sure_until = self._parts.clock.monotonic() + term_s
        if (work := self._works.get(scope)) is not None:
            work.lease, work.sure_until = leases.renew(work.lease, term_s), sure_until
        else:
            held, end = self._quiet[scope]
            self._quiet[scope] = _Held(leases.renew(held.lease, term_s), sure_until), end

    def _look_for_work(self) -> None:
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
            if scope not in self._works and scope not in self._quiet:
                self._claim(scope)

    def _claim(self, scope: str) -> None:
        store, settings = self._parts.store, self._parts.settings
        if not self._has_work(scope):
            self._source.done(scope)
            return
        before = store.leases.get(scope)
        now = self._parts.clock.monotonic()
        lease = store.leases.claim(scope, self._owner, settings.lease_s)
        if lease is None:
            return
        held = _Held(lease, now + settings.lease_s)
        if before is not None and before.owner and self._has_intents(scope):
            # A request of its former owner can still be in flight.
            LOG.info('Cluster %s was taken over from %s: waiting %s s', scope, before.owner,
                     settings.quiesce_s)  # fmt: skip
            self._quiet[scope] = held, now + settings.quiesce_s
        else:
            self._begin(held)

    def _end_quiet(self, now: float) -> None:
        for scope, (held, end) in list(self._quiet.items()):
            if end <= now:
                del self._quiet[scope]
                self._begin(held)

    def _begin(self, held: _Held) -> None:
        lease = held.lease
        try:
            work = self._work_on(lease)
        except ClusterNotFound:
            self._release(lease)
            self._source.done(lease.scope)
            return
        except StoreError as exc:
            # Temporary: the next poll tries it again.
            LOG.warning('Cannot start work on cluster %s now: %s', lease.scope, exc)
            self._release(lease, unsettled=True)
            return
        # Its driver can be missing here and installed on another host.
        except Exception:
            LOG.exception('Cannot work on cluster %s here for now', lease.scope)
            self._release(lease, unsettled=True)
            self._shunned[lease.scope] = self._parts.clock.monotonic() + SHUN_S
            return
        work.sure_until = held.sure_until
        self._works[lease.scope] = work
        self._run_round(lease.scope)

    def _work_on(self, lease: Lease) -> Worker:
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
            return NodeWorker(self._parts, lease, driver, call_soon)
        return DriverWorker(self._parts, lease, driver, call_soon)

    def _has_work(self, scope: str) -> bool:
        """Read it from the store, whatever the source reports."""
        return self._parts.store.operations.has_work(scope)

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
            LOG.warning('%s', exc)
            del self._works[scope]
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
        self._release(work.lease, unsettled=not work.idle)
        if work.idle:
            self._source.done(scope)

    def _release(self, lease: Lease, *, unsettled: bool = False) -> None:
        with contextlib.suppress(ClusterError):
            self._parts.store.leases.release(lease, unsettled=unsettled)
