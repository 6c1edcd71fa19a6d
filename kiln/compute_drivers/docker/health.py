"""Whether an engine is fit to be used, and what time it has."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Mapping
from typing import Any

from kiln.clock import Clock
from kiln.compute_drivers.docker.client import Engine
from kiln.compute_drivers.docker.errors import Asked
from kiln.exceptions import ComputeServiceError
from kiln.models import DriverHealth

#: Seconds for which the difference of two clocks is remembered.
_SKEW_TTL_S = 300.0


def look(engine: Engine, clock: Clock, *, privileged: bool) -> DriverHealth:
    """Look whether an engine answers and has what the options need.

    :raises ComputeServiceError: it answers, and cannot be used.
    """
    asked = Asked(verb='check', subject='the backend')
    started = clock.monotonic()
    info = engine.ask(asked, lambda session: session.info())
    latency_s = clock.monotonic() - started
    if privileged and 'name=rootless' in (info.get('SecurityOptions') or ()):
        raise asked.error(
            ComputeServiceError,
            'the engine is rootless, and cannot give the rights that the option privileged '
            'asks for.',
        )
    kind = 'Podman' if engine.is_podman(asked) else 'Docker Engine'
    return DriverHealth(healthy=True, detail=_detail(kind, info), latency_s=latency_s)


def _detail(kind: str, info: Mapping[str, Any]) -> str:
    return (
        f'{kind} {info.get("ServerVersion")} on {info.get("Name")}, cgroups '
        f'v{info.get("CgroupVersion") or 1} by {info.get("CgroupDriver")}, '
        f'{info.get("Driver")}, {info.get("NCPU")} cpus, '
        f'{(info.get("MemTotal") or 0) // 2**20} MiB'
    )


class Clocks:
    """Tells what time an engine has; a question for events must not name its future."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock
        self._lock = threading.Lock()
        self._measured_at = float('-inf')
        self._ahead_s = 0.0

    def engine_now(self, asked: Asked) -> float:
        """Return the engine's time, in seconds since the epoch; never earlier than it is."""
        now = self._clock.monotonic()
        if now - self._measured_at >= _SKEW_TTL_S:
            before = self._clock.time()
            info = self._engine.ask(asked, lambda session: session.info())
            with self._lock:
                # What it said a moment ago; the way of the answer is added, so that
                # rather too much is asked for than too little.
                self._ahead_s = _seconds(info.get('SystemTime'), before) - before
                self._measured_at = now
        return self._clock.time() + self._ahead_s


def _seconds(moment: Any, otherwise: float) -> float:
    try:
        return datetime.datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return otherwise
