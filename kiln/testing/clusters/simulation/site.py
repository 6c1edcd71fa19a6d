"""Simulated site whose cloud and store are files that outlive its processes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kiln.clock import SYSTEM_CLOCK
from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.readiness import WhenActive
from kiln.cluster_drivers.values import DRAINED, READY
from kiln.clusters.exceptions import ClusterDriverError, ClusterDriverUnusable
from kiln.clusters.models import DriverPin
from kiln.compute.facade import Compute
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.db.store import Store, open_store
from kiln.engine.conductor import Conductor
from kiln.engine.context import Backends, EngineSettings, Parts
from kiln.fairness.threads import FairThreads
from kiln.models import Amphora
from kiln.testing.clusters.samples import Secret
from kiln.testing.clusters.subjects import find_driver
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.watcher.interval import WatcherSettings

#: Fast, so that tests are short; slow enough that one step is under way
#: while the next is written.
SETTINGS = EngineSettings(lease_s=0.25, quiesce_s=0.1, poll_s=0.03, settle_s=0.03)
STACK = StackSettings(
    # Short, as the simulated cloud is unavailable for a moment only.
    circuit=CircuitSettings(open_s=0.1, open_max_s=0.2),
    executor=ExecutorSettings(first_delay_s=0.02, max_delay_s=0.1, cleanup_grace_s=0.1),
    watcher=WatcherSettings(interval_s=0.01, max_interval_s=0.1),
)
_WORKERS = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Site:
    """Settings shared by all processes that work on the same clusters; can be pickled.

    By default machines are built on a simulated cloud in the same folder. For another
    backend override ``open_backend`` and ``machines``.
    """

    #: Holds the store, and the simulated cloud.
    folder: Path
    #: A reference that ``find_driver`` takes.
    driver: str
    settings: EngineSettings = SETTINGS
    #: Seconds; see NoopCloud.
    accept_s: float = 0.003
    build_s: float = 0.02
    delete_s: float = 0.01
    reset_s: float = 0.01

    #: The backend of all nodes.
    backend = 'noop'

    # ---- store and cloud -------------------------------------------------------

    def open_store(self) -> Store:
        """Open the store; the caller closes it."""
        return open_store(f'sqlite:///{self.folder}/kiln.db')

    def open_backend(self, faults: Sequence[str] = ()) -> Compute:
        """Open the backend, with faults for this process alone."""
        return Compute(NoopDriver(cloud=self._cloud(faults)), settings=STACK)

    def machines(self) -> tuple[Amphora, ...]:
        """Return all machines of the cloud, including those that kiln did not build."""
        with contextlib.closing(self._cloud()) as cloud:
            return cloud.instances()

    def _cloud(self, faults: Sequence[str] = ()) -> NoopCloud:
        return NoopCloud(
            self.folder / 'cloud.db', accept_s=self.accept_s, build_s=self.build_s,
            delete_s=self.delete_s, reboot_s=self.reset_s, rebuild_s=self.reset_s,
            faults=[Fault.parse(text) for text in faults],
        )  # fmt: skip

    # ---- conductor -------------------------------------------------------------

    @contextlib.contextmanager
    def conducting(
        self, store: Any, open_backend: Callable[[], Any] | None = None
    ) -> Iterator[Conductor]:
        """Run a conductor in this process on the clusters of the store."""
        opener = open_backend or self.open_backend
        backends = Backends(lambda name: opener(), default=self.backend)
        threads = FairThreads(_WORKERS, each=_WORKERS, name='kiln-cluster-driver')
        parts = Parts(
            store=store, backends=backends, drivers=_One(self.driver), clock=SYSTEM_CLOCK,
            run=threads.run, settings=self.settings, secrets=Secret(), site='kit',
        )  # fmt: skip
        conductor = Conductor(parts)
        conductor.start()
        try:
            yield conductor
        finally:
            conductor.close()
            backends.close()
            threads.close()


#: What a driver does beside its polls, in which it can speak to machines.
_HOOKS = tuple(
    f'{when}_{what}_cluster' for when in ('pre', 'post') for what in ('create', 'update', 'delete')
)


class _One:
    """Driver registry with one cluster driver."""

    def __init__(self, reference: str) -> None:
        self._driver = simulated(reference).open()

    def open(self, pin: DriverPin) -> NodeClusterDriver:
        return self._driver


def _tried_once(hook: Callable[..., None]) -> Callable[..., None]:
    """Return a hook that has succeeded once it was called, even if no machine answers it."""

    @functools.wraps(hook)
    def called(*given: Any, **named: Any) -> None:
        try:
            hook(*given, **named)
        except ClusterDriverError as exc:
            if not exc.retryable:
                raise

    return called


@functools.cache
def simulated(reference: str) -> type[NodeClusterDriver]:
    """Return a driver for a cloud whose machines run nothing.

    A driver that polls inside machines would wait forever, so its polls are replaced by
    ones that report success, and its hooks are not repeated for machines that do not answer.
    Everything else of the driver stays as it is.

    :raises ClusterDriverUnusable: kiln's engine does not build its clusters.
    """
    driver_class = find_driver(reference)
    if not issubclass(driver_class, NodeClusterDriver):
        raise ClusterDriverUnusable(
            f'The clusters of {driver_class.name} are not built by the engine of kiln.'
        )
    changes: dict[str, Any] = {}
    if (
        driver_class.is_ready is not NodeClusterDriver.is_ready
        or type(driver_class.ready) is not WhenActive
    ):
        changes['is_ready'] = lambda self, context, cluster, node: READY
    if driver_class.drain is not NodeClusterDriver.drain:
        changes['drain'] = lambda self, context, cluster, node: DRAINED
    for name in _HOOKS:
        hook = getattr(driver_class, name)
        if hook is not getattr(NodeClusterDriver, name):
            changes[name] = _tried_once(hook)
    # If nothing has to change, the driver itself is tested.
    if not changes:
        return driver_class
    # Its files are those of the driver.
    changes['__module__'] = driver_class.__module__
    return type(driver_class.__name__, (driver_class,), changes)
