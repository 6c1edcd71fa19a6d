"""Health check of an engine, and the offset of its clock."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from kiln.clock import Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api.client import Engine, Session
from kiln.exceptions import ComputeServiceError
from kiln.models import DriverHealth

#: Seconds for which the clock offset is cached.
_SKEW_TTL_S = 300.0


def look(engine: Engine, clock: Clock, *, privileged: bool) -> DriverHealth:
    """Check that an engine answers and supports the options.

    :raises ComputeServiceError: the engine answers, but cannot be used.
    """
    asked = Asked(verb='check', subject='the backend')
    started = clock.monotonic()
    info = engine.ask(asked, Session.info)
    latency_s = clock.monotonic() - started
    if privileged and 'name=rootless' in (info.get('SecurityOptions') or ()):
        raise asked.error(
            ComputeServiceError,
            'the engine is rootless, and cannot give the privileges that the option '
            'privileged needs.',
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
    """The engine's clock: an events request must not end in the engine's future."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock
        self._measured_at = float('-inf')
        self._ahead_s = 0.0

    def engine_now(self, asked: Asked) -> float:
        """Return the engine's time in seconds since the epoch; never too early."""
        now = self._clock.monotonic()
        if now - self._measured_at >= _SKEW_TTL_S:
            before = self._clock.time()
            info = self._engine.ask(asked, Session.info)
            # The time of the answer counts as offset too, so that the result is
            # rather late than early.
            self._ahead_s = _seconds(info.get('SystemTime'), before) - before
            # Last, as other threads use the offset from then on.
            self._measured_at = now
        return self._clock.time() + self._ahead_s


def _seconds(moment: Any, otherwise: float) -> float:
    try:
        return datetime.datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return otherwise
