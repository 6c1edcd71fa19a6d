"""The conductor: holds the leases of clusters, and has their rounds run."""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable

from kiln.clock import ClockEvent
from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.clusters.exceptions import ClusterError, LeaseLost, StoreBroken, StoreError
from kiln.clusters.models import Lease, StepState
from kiln.engine.cluster.absent_driver import AbsentDriver, deletes_without
from kiln.engine.cluster.driver_worker import DriverWorker
from kiln.engine.cluster.held_lease import HeldLease
from kiln.engine.cluster.node_worker import NodeWorker
from kiln.engine.cluster.worker import Worker
from kiln.engine.context import Parts
from kiln.engine.health.standing_check import SCOPE, StandingCheck
from kiln.engine.held_cluster import HeldCluster, Result, RoundEnd
from kiln.engine.owners import has_died, host, new_owner
from kiln.engine.work_sources.base import WorkSource
from kiln.engine.work_sources.database import DatabaseSource
from kiln.fairness.threads import FairThreads

LOG = logging.getLogger(__name__)

#: Rounds of different clusters that are under way at once: a large cluster computes for
#: seconds, and the others must neither wait for that nor share the processor with many.
ROUNDS = 4
#: Seconds until a cluster that could not be started here is tried again.
SHUN_S = 30.0
#: The part of the time to end in which rounds and calls under way can end by themselves.
_GRACE = 0.5
_TURN = 'A turn of the conductor failed'


class Conductor:
    """Works on the clusters whose leases it gets, until it is closed.

    A crash at any time loses nothing: the next conductor that claims the leases continues
    from the store. Without a ``source`` the store is polled for work. The caller that
    passes a source closes it, after the conductor.

    Its own thread holds the leases. The rounds of clusters run on a few other threads, each
    cluster has one at a time, and clusters that have used little time come first.
    """

    def __init__(
        self, parts: Parts, *, owner: str | None = None, source: WorkSource | None = None
    ) -> None:
        self._parts = parts
        self._source = source or DatabaseSource(parts.store)
        # Unique to this process, so a lease of an earlier process is never mistaken for its own.
        self._owner = owner or new_owner()
        #: What other threads leave to the conductor's own.
        self._inbox: deque[Callable[[], None]] = deque()
        self._arrived = threading.Condition()
        #: By cluster.
        self._held: dict[str, HeldCluster] = {}
        self._rounds = FairThreads(ROUNDS, each=1, name='kiln-round')
        self._watch = StandingCheck(parts, self._owner, self._source.offer)
        # Clusters that could not be started here, and until when they are skipped.
        self._shunned: dict[str, float] = {}
        self._renew_at = 0.0
        self._poll_at = 0.0
        self._closed = ClockEvent(parts.clock)
        self._grace_s = 0.0
        self._failures = parts.failures
        #: Why it has ended by itself.
        self._end: StoreBroken | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen_at = self._round_at = self._renewed_at = parts.clock.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since its own thread began a turn; a few at most while it works."""
        return self._parts.clock.monotonic() - self._seen_at

    @property
    def rounds_silent_s(self) -> float:
        """Seconds since a round ended, or since none was under way."""
        return self._parts.clock.monotonic() - self._round_at

    @property
    def unrenewed_s(self) -> float:
        """Seconds since all leases that it holds were renewed, or since it held none."""
        return self._parts.clock.monotonic() - self._renewed_at

    @property
    def watch(self) -> StandingCheck:
        """Its polls of the settled clusters."""
        return self._watch

    @property
    def clusters(self) -> int:
        """The number of clusters that it holds."""
        return len(self._held)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name='kiln-conductor', daemon=True)
        self._thread.start()
        self._source.start(self.wake)
        self._watch.start()

    def wake(self) -> None:
        """Poll the store now: an operation was submitted."""
        self._put(self._poll_now)

    def wait(self) -> None:
        """Wait until it ends by itself, which it does for the error that this raises.

        :raises StoreBroken: nothing can go on with the store.
        """
        self._ended.wait()
        self.check()

    def check(self) -> None:
        """Return if it has not ended by itself.

        :raises StoreBroken: why it has.
        """
        if self._end is not None:
            raise self._end

    def close(self, wait_s: float = 10.0) -> None:
        """Stop; what is under way in backends continues, and is found again later.

        Rounds and checks that do not end in time are abandoned: without the lease, they can
        write and start nothing more.
        """
        deadline = time.monotonic() + wait_s
        self._grace_s = wait_s * _GRACE
        self._rounds.close()
        self._watch.stop()
        self._closed.set()
        self.wake()
        # Only its own thread uses the store, which can take long to answer.
        if self._thread is not None:
            self._thread.join(wait_s)
        self._watch.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while not self._closed.is_set():
            self._seen_at = self._parts.clock.monotonic()
            try:
                self._turn()
            except StoreBroken as exc:
                self._end = exc
                self._ended.set()
                break
            # A defect must not end the thread that works for all clusters.
            except Exception as exc:
                self._failures.failed(_TURN, exc)
                self._closed.wait(self._parts.settings.poll_s)
        self._rounds.join(self._grace_s)
        self._release_all()

    def _turn(self) -> None:
        self._wait()
        for _ in range(len(self._inbox)):
            self._inbox.popleft()()
        now = self._parts.clock.monotonic()
        if now >= self._renew_at:
            self._renew(now)
        if now >= self._poll_at:
            self._poll_at = now + self._parts.settings.poll_s
            self._search_work()
            # Other turns can do without the store, and prove nothing.
            self._failures.succeeded(_TURN)
        if not any(cluster.running for cluster in self._held.values()):
            self._round_at = now
        for scope, cluster in self._held.items():
            if cluster.due <= now:
                cluster.running = True
                self._rounds.run(scope, functools.partial(self._run_round, cluster))

    def _wait(self) -> None:
        """Wait until something has arrived or is due."""
        clock = self._parts.clock
        due = [cluster.due for cluster in self._held.values()]
        until = min([self._poll_at, self._renew_at, *due])
        with self._arrived:
            # Other threads that wait for the same time can wake this thread before it.
            while not self._inbox and (left_s := until - clock.monotonic()) > 0:
                clock.wait(self._arrived, left_s)

    def _poll_now(self) -> None:
        self._poll_at = -math.inf

    # ---- called by other threads -----------------------------------------------------

    def _put(self, one: Callable[[], None]) -> None:
        with self._arrived:
            self._inbox.append(one)
            self._arrived.notify()

    def _run_round(self, cluster: HeldCluster) -> None:
        try:
            end = cluster.run_round()
        except StoreBroken as exc:
            self._put(functools.partial(_raise, exc))
        else:
            self._put(functools.partial(self._settle, cluster, end))

    # ---- called by its own thread -----------------------------------------------------

    def _add(self, lease: Lease, result: Result) -> None:
        cluster = self._held.get(lease.scope)
        # What was started under an earlier lease is found again in the backend.
        if cluster is not None and cluster.held.lease.epoch == lease.epoch:
            cluster.add(result)

    def _settle(self, cluster: HeldCluster, end: RoundEnd) -> None:
        """Keep or release a cluster after a round."""
        scope = cluster.held.lease.scope
        cluster.running = False
        self._round_at = self._parts.clock.monotonic()
        # It can have lost its lease meanwhile.
        if self._held.get(scope) is not cluster:
            return
        match end:
            case RoundEnd.GOES_ON:
                pass
            # What was submitted since the round began can be waiting for the next one.
            case RoundEnd.DONE if cluster.reads:
                pass
            case RoundEnd.LOST:
                del self._held[scope]
            case RoundEnd.DONE | RoundEnd.GONE:
                self._release(self._held.pop(scope), unsettled=False)
                self._source.done(scope)
            case RoundEnd.BEGINS_AGAIN | RoundEnd.SHUNNED:
                self._release(self._held.pop(scope), unsettled=True)
                if end is RoundEnd.SHUNNED:
                    self._shunned[scope] = self._parts.clock.monotonic() + SHUN_S

    def _renew(self, now: float) -> None:
        settings = self._parts.settings
        self._renew_at = now + settings.lease_s / 3
        self._shorten_leases()
        renewed = True
        for scope, cluster in list(self._held.items()):
            what = f'Cannot renew the lease of cluster {scope}'
            try:
                cluster.held.renew()
                self._failures.succeeded(what)
            except LeaseLost as exc:
                LOG.warning('%s', exc)
                # Its round under way starts nothing more.
                cluster.held.give_up()
                del self._held[scope]
            except StoreError as exc:
                # The lease can still be held for a while, and the store can come back.
                self._failures.failed(what, exc)
                self._renew_at = now + min(settings.poll_s, settings.lease_s / 3)
                renewed = False
        if renewed:
            self._renewed_at = now
        try:
            self._watch.renew()
        except StoreError as exc:
            self._failures.failed('Cannot renew the watch of the settled clusters', exc)

    def _shorten_leases(self) -> None:
        try:
            if count := self._parts.store.leases.shorten(
                self._parts.settings.lease_s, besides=SCOPE
            ):
                LOG.warning('The clock was set back: shortened %s leases to their term', count)
        except StoreError as exc:
            self._failures.failed('Cannot check how long leases are', exc)

    def _search_work(self) -> None:
        self._free_leases()
        for cluster in self._held.values():
            cluster.reads = True
        now = self._parts.clock.monotonic()
        self._shunned = {scope: until for scope, until in self._shunned.items() if until > now}
        for scope in self._source.take(self._shunned.keys()):
            if scope not in self._held:
                self._claim(scope)

    def _free_leases(self) -> None:
        """Let the leases of owners expire that died on this host, which nobody else can know."""
        leases = self._parts.store.leases
        for lease in leases.held_on(host(), besides=self._owner):
            if has_died(lease.owner):
                LOG.info('%s has died: its lease on %s ends now', lease.owner, lease.scope)
                leases.expire(lease)

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
        held = HeldLease(self._parts, lease, now + settings.lease_s)
        begins = now
        if before is not None and before.owner and self._has_intents(scope):
            # A request of its former owner can still be in flight.
            LOG.info('Cluster %s was taken over from %s: waiting %s s', scope, before.owner,
                     settings.quiesce_s)  # fmt: skip
            begins = now + settings.quiesce_s
        self._held[scope] = HeldCluster(held, self._work_on, begins, self._failures)

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
            self._put(functools.partial(self._add, lease, result))

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

    def _release_all(self) -> None:
        """Release all clusters at the end."""
        for cluster in self._held.values():
            # A round that is still under way starts nothing more.
            cluster.held.give_up()
        self._release(*self._held.values(), unsettled=True)
        self._held.clear()

    def _release(self, *clusters: HeldCluster, unsettled: bool) -> None:
        """Release leases; those that cannot be released expire."""
        leases = [cluster.held.lease for cluster in clusters]
        try:
            self._parts.store.leases.release(*leases, unsettled=unsettled)
        except ClusterError as exc:
            LOG.warning('Cannot release leases now, so they expire: %s', exc)


def _raise(exc: StoreBroken) -> None:
    raise exc
