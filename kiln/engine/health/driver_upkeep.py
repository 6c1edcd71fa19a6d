"""Driver upkeep: regular maintenance of settled clusters by their drivers."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping

from kiln.clock import Deadline, deadline_scope
from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.calls import driver_errors
from kiln.cluster_drivers.values import Cap, Context
from kiln.clusters.exceptions import ClusterError, LeaseLost
from kiln.clusters.models import Cause, Cluster, Lease, Operation
from kiln.engine.context import Parts
from kiln.engine.driver_context import existing
from kiln.engine.measuring import values_of
from kiln.engine.nodes.join_key import JoinKey, known_key
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.lifecycle import cause_of
from kiln.exceptions import KilnError

LOG = logging.getLogger(__name__)

#: Clusters that are tended at once; most threads are left to operations.
MOST = 2
#: The time that a driver has; never more than half a lease.
LONGEST_S = 10.0


@contextlib.contextmanager
def borrowed(parts: Parts, cluster_id: str, owner: str) -> Iterator[Lease | None]:
    """Hold the lease of a cluster without an operation under way; None if it has one."""
    store, lease = parts.store, None
    # A lease given by a jobboard has no time of its own, so claiming it would take it
    # away.
    if not store.operations.open(cluster_id):
        lease = store.leases.claim(cluster_id, owner, parts.settings.lease_s)
    if lease is None:
        yield None
        return
    try:
        yield None if store.operations.open(cluster_id) else lease
    except LeaseLost as exc:
        LOG.info('%s', exc)
    finally:
        store.leases.release(lease)


class DriverUpkeep:
    """Calls drivers to tend their clusters one after another, and records the trouble found.

    Nothing runs on the caller's thread. An error of one cluster is recorded and does not
    affect the others.
    """

    def __init__(self, parts: Parts, owner: str) -> None:
        self._parts = parts
        self._owner = owner
        self._lock = threading.Lock()
        #: The clusters that are due, and the newest operation of each.
        self._due: dict[str, Operation] = {}
        self._runners = 0
        #: Clusters whose driver does not tend; only another operation can change that.
        self._alone: dict[str, Operation] = {}
        #: The names of clusters whose values were exported, by id, and their newest operations.
        self._measured: dict[str, str] = {}
        self._newest: dict[str, Operation] = {}
        self._failures = parts.failures
        self._closed = False

    @property
    def busy(self) -> bool:
        """True while a cluster is being tended."""
        return self._runners > 0

    def begin(self, settled: Mapping[str, Operation]) -> None:
        """Tend clusters that are settled since an operation; return at once."""
        with self._lock:
            self._alone = {key: one for key, one in self._alone.items() if settled.get(key) == one}
            gone = self._measured.keys() - settled.keys()
            # Clusters that still wait keep their place.
            waiting = {key: settled[key] for key in self._due if key in settled}
            self._due = {**waiting, **settled}
            # A cluster that was deleted has no values any longer.
            self._due |= {key: self._newest[key] for key in gone}
            self._newest = {**settled, **{key: self._newest[key] for key in gone}}
            for key in self._alone:
                del self._due[key]
            begun = min(MOST - self._runners, len(self._due))
            self._runners += begun
        for _ in range(begun):
            self._parts.run(self._owner, self._work)

    def close(self) -> None:
        """Start no other cluster; one that is being tended has its deadline."""
        with self._lock:
            self._closed = True
            self._due.clear()

    def _work(self) -> None:
        while (turn := self._next()) is not None:
            what = f'Cannot tend cluster {turn[0]}'
            try:
                self._tend(*turn)
            # Whatever fails, the other clusters are tended all the same.
            except Exception as exc:
                self._failures.failed(what, exc)
            else:
                self._failures.succeeded(what)

    def _next(self) -> tuple[str, Operation] | None:
        with self._lock:
            if not self._due or self._closed:
                self._runners -= 1
                return None
            cluster_id = next(iter(self._due))
            return cluster_id, self._due.pop(cluster_id)

    def _tend(self, cluster_id: str, newest: Operation) -> None:
        try:
            cluster = self._parts.store.clusters.get(cluster_id)
            driver = self._parts.drivers.open(cluster.pin)
        # The cluster is gone, or its driver is missing here, which is reported elsewhere.
        except ClusterError:
            self._forget(cluster_id)
            return
        measured = self._measure(driver, cluster)
        if not isinstance(driver, NodeClusterDriver) or not driver.tends:
            if not measured:
                with self._lock:
                    self._alone[cluster_id] = newest
            return
        # After a failed or cancelled operation the cluster is left as it is.
        if cluster.paused or cluster.former != cluster.aim:
            return
        with borrowed(self._parts, cluster_id, self._owner) as lease:
            if lease is not None:
                self._keep(lease, self._asked(driver, cluster, lease))

    def _measure(self, driver: ClusterDriver, cluster: Cluster) -> bool:
        """Export what the driver measures, if it does; return whether it does."""
        parts = self._parts
        if parts.export_readings is None or Cap.MONITOR not in driver.capabilities:
            return False
        context = self._context(cluster, functools.partial(known_key, parts.store, cluster.id))
        try:
            readings = parts.meter.read(driver, context, cluster) or ()
        except KilnError as exc:
            LOG.info('Cannot measure cluster %s: %s', cluster.name, exc)
            readings = ()
        self._measured[cluster.id] = cluster.name
        parts.export_readings(cluster.name, values_of(readings))
        return True

    def _forget(self, cluster_id: str) -> None:
        name = self._measured.pop(cluster_id, None)
        if name is not None and self._parts.export_readings is not None:
            self._parts.export_readings(name, {})

    def _context(self, cluster: Cluster, join_key: Callable[[], bytes]) -> Context:
        contexts = self._parts.contexts
        return contexts.context(
            cluster,
            nodes=existing(self._parts.store.nodes.of(cluster.id)),
            join_key=join_key,
            template=contexts.template(cluster),
        )

    def _asked(self, driver: NodeClusterDriver, cluster: Cluster, lease: Lease) -> Cause | None:
        parts = self._parts
        context = self._context(cluster, JoinKey(parts.store, lease))
        longest_s = min(LONGEST_S, parts.settings.lease_s / 2)
        try:
            with (
                deadline_scope(Deadline.after(longest_s, parts.clock)),
                driver_errors(driver.name, 'tend'),
            ):
                driver.tend(context=context, cluster=cluster)
        except KilnError as exc:
            return cause_of(exc)
        return None

    def _keep(self, lease: Lease, trouble: Cause | None) -> None:
        parts = self._parts
        cluster = parts.store.clusters.get(lease.scope)
        if cluster.trouble == trouble:
            return
        tx = Transaction(cluster, parts.clock)
        tx.cluster = dataclasses.replace(cluster, trouble=trouble)
        if trouble is None:
            tx.event('cluster-well', f'{cluster.name} is healthy again')
        else:
            tx.event('cluster-trouble', f'{cluster.name}: {trouble.message}')
        tx.commit(parts.store, lease)
