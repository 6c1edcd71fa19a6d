"""Site of one user and one driver: rounds of the engine on a virtual clock, in one thread."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from kiln.clock import SYSTEM_CLOCK
from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.discovery.discovery import Catalogue
from kiln.cluster_drivers.discovery.guide import home_of
from kiln.cluster_drivers.discovery.manifest import Manifest, from_class
from kiln.cluster_drivers.discovery.sources import DriverSource, digest_of
from kiln.cluster_drivers.records import DriverRecord
from kiln.cluster_drivers.values import Secrets
from kiln.cluster_service.drivers import SiteDrivers
from kiln.cluster_service.requests import Declare, Request
from kiln.cluster_service.site import Site
from kiln.clusters.exceptions import ClusterError
from kiln.clusters.models import Cause, Cluster, Event, Node, Operation
from kiln.compute.facade import Compute
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.db.store import open_store
from kiln.db.tables.upgrade import create_file
from kiln.engine.cluster.held_lease import HeldLease
from kiln.engine.cluster.node_worker import NodeWorker
from kiln.engine.context import Backends, EngineSettings, Parts
from kiln.engine.health.driver_upkeep import DriverUpkeep
from kiln.hooks.invocation import Call
from kiln.hooks.registry import Hooks
from kiln.hooks.replies import Answer
from kiln.models import Amphora
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters.road.file import CLUSTER, LONGEST_S, declared
from kiln.testing.clusters.samples import Secret
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.watcher.interval import WatcherSettings

#: Virtual time passes in leaps, so a lease has to last through all of them.
SETTINGS = EngineSettings(lease_s=1e9, quiesce_s=0.0, poll_s=1.0, settle_s=0.1)
#: The simulated cloud is in memory and answers at once, so polls of it can be close together.
STACK = StackSettings(
    executor=ExecutorSettings(first_delay_s=0.01, max_delay_s=0.02, cleanup_grace_s=0.1),
    watcher=WatcherSettings(interval_s=0.002, max_interval_s=0.005),
)
#: Real seconds within which the simulated cloud answers.
_PATIENCE_S = 30.0


class UserSite:
    """A site where each request is planned, checked, applied and worked on to its end."""

    def __init__(
        self,
        folder: Path,
        driver_class: type[NodeClusterDriver],
        *,
        secrets: Secrets | None = None,
        clock: VirtualClock | None = None,
        emptied: Callable[[str], None] | None = None,
    ) -> None:
        """Take a folder, and a driver.

        :param emptied: called with the id of a machine whose disk is emptied.
        """
        self.folder = folder
        self.clock = clock or VirtualClock()
        self._emptied = emptied
        self.cloud = NoopCloud(flavors=None, zones=('az1', 'az2', 'az3'))
        self.store = open_store(f'sqlite:///{_with_tables(folder)}', clock=self.clock)
        # By the real clock, as its zones would be listed again whenever virtual time leaps.
        backends = Backends(self._open_backend, default='noop')
        source = _ClassSource(driver_class)
        self.drivers = SiteDrivers(lambda: Catalogue({source.record(): source}))
        self.secrets = secrets or Secret()
        self.site = Site(
            self.store, self.drivers, backends, name='kit', clock=self.clock,
            settings=SETTINGS, operation_timeout_s=LONGEST_S, secrets=self.secrets,
        )  # fmt: skip
        self._calls: deque[Callable[[], None]] = deque()
        self._results: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._parts = Parts(
            store=self.store, backends=backends, drivers=self.drivers, clock=self.clock,
            run=lambda _, function: self._calls.append(function), settings=SETTINGS,
            secrets=self.secrets, site='kit', hooks=_AtOnce(clock=self.clock),
        )  # fmt: skip

    def _open_backend(self, name: str) -> Compute:
        driver = _Emptying(cloud=self.cloud)
        driver.emptied = self._emptied
        return Compute(driver, settings=STACK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.site.close()

    # ---- what a user does ----------------------------------------------------------

    def up(self, text: str) -> Operation:
        """Bring a cluster to what a file declares; return the operation, which has ended.

        :raises ClusterError: it was refused before anything was done.
        """
        return self.request(Declare(spec=declared(text)))

    def request(self, request: Request, *, timeout_s: float | None = None) -> Operation:
        """Plan a request, check it, apply it, and work until it has ended."""
        clusters = self.site.clusters
        operation = clusters.apply(clusters.plan(request), timeout_s=timeout_s)
        self._work(operation.cluster_id)
        return self.store.operations.get(operation.id)

    def tend(self) -> Cause | None:
        """Have the driver tend the cluster; return the trouble that it reports."""
        cluster = self.cluster()
        newest = self.store.operations.of(cluster.id)[-1]
        DriverUpkeep(self._parts, 'kit').begin({cluster.id: newest})
        while self._calls:
            self._calls.popleft()()
        return self.cluster().trouble

    # ---- what a user sees ----------------------------------------------------------

    def cluster(self) -> Cluster:
        """Return the cluster."""
        return self.store.clusters.get(CLUSTER)

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes that are not gone, oldest first."""
        nodes = self.site.clusters.show(CLUSTER).nodes or ()
        return tuple(sorted(nodes, key=lambda node: node.created_at))

    def events(self) -> tuple[Event, ...]:
        """Return everything that users were told."""
        return tuple(self.site.clusters.events())

    def machines(self) -> tuple[Amphora, ...]:
        """Return all machines of the cloud."""
        return self.cloud.instances()

    # ---- the engine ----------------------------------------------------------------

    def _work(self, cluster_id: str) -> None:
        """Run rounds of a cluster until nothing is left to do."""
        lease = self.store.leases.claim(cluster_id, 'kit', SETTINGS.lease_s)
        assert lease is not None
        driver = self.drivers.open(self.store.clusters.get(cluster_id).pin)
        assert isinstance(driver, NodeClusterDriver)
        work = _Rounds(self._parts, HeldLease(self._parts, lease), driver, self._results.put)
        try:
            work.run_round(())
            while not work.idle:
                work.run_round(self._next(work))
        finally:
            with contextlib.suppress(ClusterError):
                self.store.leases.release(lease)

    def _next(self, work: _Rounds) -> list[Callable[[], object]]:
        """Return the results for the next round; let time pass until it if none are due."""
        while self._calls:
            self._calls.popleft()()
        results = []
        with contextlib.suppress(queue.Empty):
            while True:
                results.append(self._results.get_nowait())
        if not results and work.waits:
            # The simulated cloud has threads of its own, and time stands still for it.
            results.append(self._results.get(timeout=_PATIENCE_S))
        if not results:
            self.clock.advance(max(0.0, min(work.due - self.clock.monotonic(), LONGEST_S)))
        return results


class _Emptying(NoopDriver):
    """A cloud that tells which machines it rebuilds."""

    emptied: Callable[[str], None] | None = None

    def _rebuild(self, amphora_id: str, image_id: str | None) -> None:
        super()._rebuild(amphora_id, image_id)
        if self.emptied is not None:
            self.emptied(amphora_id)


class _Rounds(NodeWorker):
    """The rounds of one cluster."""

    @property
    def waits(self) -> bool:
        """True if an action is under way that will report a result."""
        return self._busy


class _AtOnce(Hooks):
    """Hooks that are called in the same thread."""

    def begin(
        self,
        cluster_id: str,
        call: Call,
        occasion: Mapping[str, Any],
        tell: Callable[[Answer], None],
    ) -> None:
        tell(self.call(call, occasion))


@dataclasses.dataclass(frozen=True)
class _ClassSource(DriverSource):
    """The driver of the kit, which was found before."""

    cls: type[NodeClusterDriver]

    @property
    def name(self) -> str:
        return self.cls.name

    @property
    def origin(self) -> str:
        return 'the kit'

    def location(self) -> Path:
        return home_of(self.cls)

    def manifest(self) -> Manifest:
        return from_class(self.cls)

    def import_class(self) -> object:
        return self.cls

    def record(self) -> DriverRecord:
        """Return the record of a usable driver."""
        return DriverRecord(
            name=self.name, version=self.cls.version, origin=self.origin,
            digest=digest_of(self.location()), provides=self.manifest().provides or (),
        )  # fmt: skip


_TABLES = tempfile.TemporaryDirectory(prefix='kiln-kit-')


def make_tables() -> Path:
    """Return the file of an empty store, which is made once; that takes longer than a cluster."""
    made = Path(_TABLES.name, 'kiln.db')
    if not made.exists():
        create_file(made, SYSTEM_CLOCK)
    return made


def _with_tables(folder: Path) -> Path:
    """Return the file of a new store."""
    made, path = make_tables(), folder / 'kiln.db'
    if not path.exists():
        shutil.copy(made, path)
    return path
