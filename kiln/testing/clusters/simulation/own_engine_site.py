"""Site whose clusters an engine of a driver's own builds, on a fake clock."""

from __future__ import annotations

import dataclasses
import functools
import os
import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.discovery.discovery import Catalogue, LoadedDriver
from kiln.cluster_drivers.discovery.manifest import Manifest, from_class
from kiln.cluster_drivers.discovery.sources import DriverSource
from kiln.cluster_drivers.records import DriverRecord
from kiln.cluster_service.drivers import SiteDrivers
from kiln.cluster_service.planning import Planning
from kiln.cluster_service.preflight import Preflight
from kiln.cluster_service.requests import Request
from kiln.cluster_service.service import Clusters
from kiln.clusters.models import Cluster, Operation
from kiln.compute.facade import Compute
from kiln.db.store import Store, open_store
from kiln.engine.cluster.driver_worker import DriverWorker
from kiln.engine.cluster.held_lease import HeldLease
from kiln.engine.context import Backends, EngineSettings, Parts
from kiln.engine.driver_context import DriverContexts
from kiln.engine.measuring import Meter
from kiln.exceptions import ConfigurationError
from kiln.hooks.invocation import Call as HookCall
from kiln.hooks.registry import Hooks
from kiln.hooks.replies import Answer
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters.engine_bench import EngineBench
from kiln.testing.clusters.samples import ChangingSecret
from kiln.testing.clusters.simulation.own_engine_calls import Recorder, kept

#: The name of the secret with the credentials of the engine.
CREDENTIALS = 'kit'
#: A lease that no operation outlasts.
_LEASE_S = 1e6
#: Rounds without any progress of the clock, after which the engine of kiln is stuck.
_MOST_ROUNDS = 1000
_MEMORY = Path('/dev/shm')  # noqa: S108  # folders of their own


class EngineSite:
    """Plays clusters as a site does: planner, preflight, store and engine, without threads."""

    def __init__(
        self, store: Store, bench: EngineBench, clock: VirtualClock, recorder: Recorder
    ) -> None:
        self.store = store
        self.bench = bench
        self.clock = clock
        self._recorder = recorder
        #: The calls of the driver, in order.
        self.calls = recorder.calls
        #: Called after each moment in which the engine has worked.
        self.watchers: list[Callable[[], None]] = []
        self.secrets = ChangingSecret()
        self.contexts = DriverContexts(
            store=store, backends=_NO_BACKENDS, site='kit', secrets=self.secrets,
            credentials=CREDENTIALS,
        )  # fmt: skip
        self.restart()

    def restart(self) -> None:
        """Continue as another process does: with another instance of the driver."""
        self.drivers = drivers = _OneDriver(self.bench.driver_class, self.open)
        # An image of a foreign engine is known to no backend.
        planning = Planning(
            self.store, drivers, lambda machine: None, clock=self.clock, contexts=self.contexts,
            meter=Meter(self.clock),
        )  # fmt: skip
        preflight = Preflight(drivers, _NO_BACKENDS, self.contexts, timeout_s=1.0)
        self.clusters = Clusters(self.store, planning, preflight, clock=self.clock)

    def open(self) -> ClusterDriver:
        """Return another instance of the driver, whose calls are recorded."""
        return self._recorder.of(self.bench.open())

    def touched(self) -> tuple[Cluster, ...]:
        """Return every cluster that the driver was called about, as it was reported last."""
        found: dict[str, Cluster] = {}
        for call in self.calls:
            last = kept(found.get(call.cluster.id, call.cluster), call.report)
            found[call.cluster.id] = last
        return tuple(found.values())

    # ---- operations ------------------------------------------------------------------

    def ask(self, request: Request) -> Operation:
        """Plan a request, and submit it as it was planned; nothing is run."""
        proposal = self.clusters.plan(request)
        return self.clusters.apply(proposal, timeout_s=self.bench.takes_s)

    def run(self, operation: Operation, *, for_s: float | None = None) -> Operation:
        """Run an operation to its end, or for some time of the fake clock; return it."""
        work = _Work(self, operation)
        until = self.clock.monotonic() + (_LEASE_S if for_s is None else for_s)
        for _ in range(_MOST_ROUNDS):
            work.round()
            now, found = self.clock.monotonic(), self.store.operations.get(operation.id)
            if found.state.ended or now >= until or self._waited():
                break
            self.pass_time(min(max(work.due - now, 0.0), until - now))
        work.end()
        return self.store.operations.get(operation.id)

    def kill(self, operation: Operation) -> None:
        """Run an operation up to the first call of the driver, and lose the answer."""
        work = _Work(self, operation)
        work.round(lose=True)
        work.end()
        self.restart()

    def pass_time(self, seconds: float) -> None:
        """Move the clock, and let the engine work as long."""
        if seconds > 0:
            self.clock.advance(seconds)
            self.bench.pass_time(seconds)
            for look in self.watchers:
                look()

    def _waited(self) -> bool:
        return bool(self.calls) and self.calls[-1].defect is not None

    def parts(self, take: Callable[[Callable[[], None]], object]) -> Parts:
        """Return what the engine works with; ``take`` receives the calls of the driver."""
        return Parts(
            store=self.store, backends=_NO_BACKENDS, drivers=self.drivers, clock=self.clock,
            site='kit', settings=EngineSettings(), secrets=self.secrets, credentials=CREDENTIALS,
            hooks=_AtOnce(clock=self.clock), run=lambda _, function: take(function),
        )  # fmt: skip


class _Work:
    """The rounds of one cluster in one process, one at a time."""

    def __init__(self, site: EngineSite, operation: Operation) -> None:
        self._launched: list[Callable[[], None]] = []
        self._results: list[Callable[[], object]] = []
        self._store = site.store
        parts = site.parts(self._launched.append)
        lease = site.store.leases.claim(operation.cluster_id, uuid.uuid4().hex, _LEASE_S)
        assert lease is not None, 'the last process has released the cluster'
        driver = site.drivers.open(site.store.clusters.get(operation.cluster_id).pin)
        self._worker = DriverWorker(parts, HeldLease(parts, lease), driver, self._results.append)

    @property
    def due(self) -> float:
        """The time of the next round."""
        return self._worker.due

    def round(self, *, lose: bool = False) -> None:
        """Run a round, what it starts, and the rounds that take in the results."""
        self._worker.run_round([])
        while self._launched or self._results:
            while self._launched:
                self._launched.pop(0)()
            results, self._results[:] = list(self._results), []
            if lose:
                return
            if results:
                self._worker.run_round(results)

    def end(self) -> None:
        """Release the cluster to the next process."""
        self._store.leases.release(self._worker.held.lease, unsettled=True)


class _AtOnce(Hooks):
    """Calls the hooks of a driver within the round that needs them."""

    def begin(
        self,
        cluster_id: str,
        call: HookCall,
        occasion: Mapping[str, Any],
        tell: Callable[[Answer], None],
    ) -> None:
        tell(self.call(call, occasion))


class _OneDriver(SiteDrivers):
    """The drivers of a site that has one."""

    def __init__(
        self, driver_class: type[ClusterDriver], open_one: Callable[[], ClusterDriver]
    ) -> None:
        self._open_one = open_one
        super().__init__(functools.partial(_catalogue, driver_class))

    def _open(self, loaded: LoadedDriver) -> ClusterDriver:
        return self._open_one()


def _catalogue(driver_class: type[ClusterDriver]) -> Catalogue:
    record_of = DriverRecord(
        name=driver_class.name, version=driver_class.version, origin='the kit', digest='kit',
        provides=from_class(driver_class).provides or (),
    )  # fmt: skip
    return Catalogue({record_of: _Class(driver_class)})


@dataclasses.dataclass(frozen=True)
class _Class(DriverSource):
    """A driver whose class is known."""

    known: type[ClusterDriver]

    @property
    def name(self) -> str:
        return self.known.name

    @property
    def origin(self) -> str:
        return 'the kit'

    def location(self) -> Path:
        return Path()

    def folder(self) -> Path | None:
        return None

    def manifest(self) -> Manifest:
        return from_class(self.known)

    def import_class(self) -> object:
        return self.known


def _no_backend(name: str) -> Compute:
    raise ConfigurationError(f'The site of the kit has no backend {name}.')


_NO_BACKENDS = Backends(_no_backend, default='none')


def memory_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder in memory, where the system has one: each commit waits for its disk."""
    fast = _MEMORY if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix='kiln-kit-', dir=fast)


def open_engine_store(folder: Path, clock: VirtualClock) -> Store:
    """Open a new store in a folder; the caller closes it."""
    file = folder / 'kiln.db'
    file.touch(0o600)
    file.write_bytes(_empty_store())
    return open_store(f'sqlite:///{file}', clock=clock)


@functools.cache
def _empty_store() -> bytes:
    """Return the file of a store without clusters; to make one takes longer than to copy it."""
    with tempfile.TemporaryDirectory(prefix='kiln-kit-') as folder:
        file = Path(folder, 'kiln.db')
        open_store(f'sqlite:///{file}').close()
        return file.read_bytes()
