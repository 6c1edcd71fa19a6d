"""What the engine is put together from, handed in by whoever starts it."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.cluster_drivers.base import ClusterDriver
from kiln.clusters.models import DriverPin
from kiln.clusters.spec import MachineSpec
from kiln.compute.facade import Compute
from kiln.db.store import Store
from kiln.engine.plan.names import Naming
from kiln.exceptions import AmphoraComputeError
from kiln.hooks.registry import Hooks
from kiln.models import Ability

#: Seconds after which a backend is asked for its zones again, with and without an answer.
ZONES_KEEP_S = 300.0
ZONES_AGAIN_S = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """How the engine works; all but the counts are seconds."""

    #: How long a lease lasts; its owner renews it three times in that time.
    lease_s: float = 15.0
    #: How long who takes over a cluster waits before he repeats what was begun: the
    #: former owner may have sent a request just before, and it may still arrive. It
    #: arrives in time if it takes no longer than this on its way. What a process sends
    #: that was stopped after it had begun to, and wakes later, comes late all the same:
    #: such a build is found by its key and adopted.
    quiesce_s: float = 5.0
    #: How often the store is asked for work, and for what others changed.
    poll_s: float = 1.0
    #: Between the two looks that prove that nothing is left.
    settle_s: float = 2.0
    #: Between two looks at the machines of clusters on which nobody works.
    watch_s: float = 30.0
    #: Requests for builds of one cluster that may be out at once.
    max_building: int = 200


class Drivers(Protocol):
    """Where cluster drivers come from."""

    def open(self, pin: DriverPin) -> ClusterDriver:
        """Return the driver that a cluster belongs to, the same one each time.

        :raises ClusterError: it is not installed any more, or cannot be loaded.
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
        #: When to ask for them again, by the monotonic clock.
        self._ask_zones_at: dict[str, float] = {}

    def get(self, name: str | None) -> Compute:
        """Return a backend; None is the site's default.

        :raises ConfigurationError: there is none of that name, or it cannot be opened.
        """
        name = name or self._default
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._open(name)
            return self._opened[name]

    def zones(self, name: str | None, *, wait: bool = False) -> tuple[str, ...] | None:
        """Return the zones of a backend as it last told them; None while it has not.

        Empty for one that has no notion of zones, or cannot tell. Returns at once,
        unless it is told to wait for an answer where there was none yet.

        :raises ConfigurationError: there is no such backend, or it cannot be opened.
        :raises AmphoraComputeError: it gave no answer that was to be waited for.
        """
        compute = self.get(name)
        if Ability.LIST_ZONES not in compute.capabilities().abilities:
            return ()
        known = self._zones.get(compute.name)
        now = self._clock.monotonic()
        with self._lock:
            due = now >= self._ask_zones_at.get(compute.name, now)
            if due:
                pause_s = ZONES_AGAIN_S if known is None else ZONES_KEEP_S
                self._ask_zones_at[compute.name] = now + pause_s
        waiting = wait and known is None
        if not (due or waiting):
            return known
        try:
            asked = compute.list_zones()
            if waiting:
                known = self._zones[compute.name] = tuple(asked.result())
            else:
                asked.add_done_callback(functools.partial(self._learn_zones, compute.name))
        except AmphoraComputeError:
            if waiting:
                raise
        return known

    def _learn_zones(self, name: str, asked: Any) -> None:
        if asked.exception() is None:
            self._zones[name] = tuple(asked.result())

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            opened, self._opened = self._opened, {}
        for compute in opened.values():
            compute.close(0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parts:
    """Everything that works on a cluster need."""

    store: Store
    backends: Backends
    drivers: Drivers
    clock: Clock
    site: str = 'kiln'
    settings: EngineSettings = EngineSettings()
    naming: Naming = dataclasses.field(default_factory=Naming)
    defaults: MachineSpec = dataclasses.field(default_factory=MachineSpec)
    hooks: Hooks = dataclasses.field(default_factory=Hooks)
    #: Runs what may take a while: a driver's looks at a node.
    run: Callable[[Callable[[], None]], Any] = dataclasses.field(kw_only=True)


#: What a node's machine carries in its metadata, for people who look at the backend.
def labels(cluster_id: str, group: str) -> Mapping[str, str]:
    """Return what the machine of a node is marked with."""
    return {'cluster': cluster_id, 'group': group}
