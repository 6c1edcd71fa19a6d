"""The dependencies of the engine, passed in by its caller."""

from __future__ import annotations

import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kiln.clock import SYSTEM_CLOCK, Clock, Deadline
from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.values import NoSecrets, Secrets
from kiln.clusters.models import DriverPin
from kiln.clusters.spec import MachineSpec
from kiln.db.store import Store
from kiln.engine.driver_context import DriverContexts
from kiln.engine.failures import Failures
from kiln.engine.measuring import Meter
from kiln.engine.outage_log import OutageLog
from kiln.engine.plan.names import Naming
from kiln.exceptions import AmphoraComputeError
from kiln.hooks.registry import Hooks
from kiln.models import Ability

if TYPE_CHECKING:
    from kiln.compute.facade import Compute

LOG = logging.getLogger(__name__)

#: Seconds after which the zones of a backend are read again, with and without an answer.
ZONES_KEEP_S = 300.0
ZONES_AGAIN_S = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """Settings of the engine; all except the counts are seconds."""

    #: How long a lease lasts; its owner renews it three times in that time.
    lease_s: float = 15.0
    #: Wait after taking over a cluster, before actions with an open intent are repeated:
    #: the former owner can have sent a request just before, which is still in flight. It
    #: arrives in time if it takes no longer than this. A process that was stopped while it
    #: sent a request, and resumes later, still sends it too late: such a build is found by
    #: its key and adopted.
    quiesce_s: float = 5.0
    #: Interval at which the store is polled for work, and for changes that others made.
    poll_s: float = 1.0
    #: Between the two polls that prove that nothing is left.
    settle_s: float = 2.0
    #: Between two polls of the machines of clusters without an operation under way.
    watch_s: float = 30.0
    #: Between two checks whether their backends answer; 0 for none.
    outage_check_s: float = 0.0
    #: Build requests of one cluster that can be under way at once.
    max_building: int = 200
    #: Nodes that one round adds and removes at most: others wait for its commit.
    portion: int = 5000


#: Takes the kind and the final state of an operation, and the seconds since it was submitted.
CountOperation = Callable[[str, str, float], None]
#: Takes the name of a cluster and the values of its monitor.
ExportReadings = Callable[[str, Mapping[str, float | None]], None]


class Drivers(Protocol):
    """The source of cluster drivers."""

    def open(self, pin: DriverPin) -> ClusterDriver:
        """Return the driver that a cluster belongs to, the same one each time.

        :raises ClusterError: it is no longer installed, or cannot be loaded.
        """


class Backends:
    """The compute backends in use, each opened when it is first needed."""

    def __init__(
        self,
        open_backend: Callable[[str], Compute],
        *,
        default: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._open = open_backend
        self._default = default
        self._clock = clock
        self._lock = threading.Lock()
        self._opened: dict[str, Compute] = {}
        self._zones: dict[str, tuple[str, ...]] = {}
        #: When to read the zones again, by the monotonic clock.
        self._list_zones_at: dict[str, float] = {}

    def get(self, name: str | None) -> Compute:
        """Return a backend; None is the site's default.

        :raises ConfigurationError: it does not exist, or cannot be opened.
        """
        name = name or self._default
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._open(name)
            return self._opened[name]

    def zones(self, name: str | None, *, wait: bool = False) -> tuple[str, ...] | None:
        """Return the zones of a backend as it last listed them; None if it has not done so.

        Empty for a backend that has no zones, or cannot list them. Returns at once, unless
        ``wait`` is set and the zones are not known so far.

        :raises ConfigurationError: the backend does not exist, or cannot be opened.
        :raises AmphoraComputeError: ``wait`` was set, and the backend did not answer.
        """
        compute = self.get(name)
        if Ability.LIST_ZONES not in compute.capabilities().abilities:
            return ()
        known = self._zones.get(compute.name)
        now = self._clock.monotonic()
        with self._lock:
            due = now >= self._list_zones_at.get(compute.name, now)
            if due:
                pause_s = ZONES_AGAIN_S if known is None else ZONES_KEEP_S
                self._list_zones_at[compute.name] = now + pause_s
        waiting = wait and known is None
        if not (due or waiting):
            return known
        try:
            listing = compute.list_zones()
            if waiting:
                known = self._zones[compute.name] = tuple(listing.result())
            else:
                listing.add_done_callback(functools.partial(self._take_zones, compute.name))
        except AmphoraComputeError:
            if waiting:
                raise
        return known

    def _take_zones(self, name: str, listing: Any) -> None:
        if listing.exception() is None:
            self._zones[name] = tuple(listing.result())

    def close(self, wait_s: float = 10.0) -> None:
        """Close all of them at once; one that takes longer is left."""
        with self._lock:
            opened, self._opened = self._opened, {}
        # The system's time, as in all that ends a process.
        deadline = Deadline.after(wait_s)
        closing = [
            threading.Thread(target=_close, args=(compute,), name=f'close-{name}', daemon=True)
            for name, compute in opened.items()
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(max(0.0, deadline.remaining_s()))


def _close(compute: Compute) -> None:
    try:
        compute.close(0.0)
    # A defect of one backend must not keep the others open.
    except Exception:
        LOG.exception('Cannot close backend %s', compute.name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parts:
    """The dependencies of the work on clusters."""

    store: Store
    backends: Backends
    drivers: Drivers
    clock: Clock
    site: str = 'kiln'
    settings: EngineSettings = EngineSettings()
    naming: Naming = dataclasses.field(default_factory=Naming)
    defaults: MachineSpec = dataclasses.field(default_factory=MachineSpec)
    #: What cluster drivers can use beside that: see their context.
    secrets: Secrets = dataclasses.field(default_factory=NoSecrets, repr=False)
    credentials: str | None = None
    hooks: Hooks = dataclasses.field(default_factory=Hooks)
    meter: Meter = dataclasses.field(default_factory=Meter)
    outages: OutageLog = dataclasses.field(default_factory=OutageLog)
    failures: Failures = dataclasses.field(default_factory=Failures)
    #: Exports the values of a cluster's monitor under the cluster's name, None for an unknown
    #: value, and none at all once the cluster is deleted; None where nothing is exported.
    export_readings: ExportReadings | None = None
    #: Counts an operation that this process has ended; None where nothing is counted.
    count_operation: CountOperation | None = None
    #: Runs what can take a while, for the cluster whose id is given: calls of drivers.
    run: Callable[[str, Callable[[], None]], Any] = dataclasses.field(kw_only=True)

    @property
    def contexts(self) -> DriverContexts:
        """The contexts of driver calls."""
        return DriverContexts(
            store=self.store,
            backends=self.backends,
            site=self.site,
            secrets=self.secrets,
            credentials=self.credentials,
            defaults=self.defaults,
        )
