"""What the engine is put together from, handed in by whoever starts it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kiln.clock import Clock
from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_models import DriverPin
from kiln.cluster_spec import MachineSpec
from kiln.compute import Compute
from kiln.db.store import Store
from kiln.engine.naming import Naming
from kiln.hooks.site import Hooks


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

    def open(self, pin: DriverPin) -> NodeClusterDriver:
        """Return the driver that a cluster belongs to, the same one each time.

        :raises ClusterError: it is not installed any more, or cannot be loaded.
        """


class Backends:
    """The compute backends in use, each opened when it is first needed."""

    def __init__(self, open_backend: Callable[[str], Compute], *, default: str) -> None:
        self._open = open_backend
        self._default = default
        self._lock = threading.Lock()
        self._opened: dict[str, Compute] = {}

    def get(self, name: str | None) -> Compute:
        """Return a backend; None is the site's default.

        :raises ConfigurationError: there is none of that name, or it cannot be opened.
        """
        name = name or self._default
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._open(name)
            return self._opened[name]

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
    join_key: bytes = dataclasses.field(default=b'', repr=False)
    #: Runs what may take a while: a driver's looks at a node.
    run: Callable[[Callable[[], None]], Any] = dataclasses.field(kw_only=True)


#: What a node's machine carries in its metadata, for people who look at the backend.
def labels(cluster_id: str, group: str) -> Mapping[str, str]:
    """Return what the machine of a node is marked with."""
    return {'cluster': cluster_id, 'group': group}
