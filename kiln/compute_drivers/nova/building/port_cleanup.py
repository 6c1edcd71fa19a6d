"""Background deletion of ports once Nova has released them."""

from __future__ import annotations

import logging
import threading

from kiln.clock import Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.building.port_locks import PortLocks
from kiln.exceptions import AmphoraComputeError

LOG = logging.getLogger(__name__)

_FIRST_S, _LONGEST_S = 2.0, 30.0
#: After this time the port is left to the orphan sweep.
_GIVE_UP_S = 600.0


class PortReaper:
    """One thread, which runs while ports wait: Neutron refuses to delete a port in use."""

    def __init__(self, ports: PortLocks, clock: Clock) -> None:
        self._ports = ports
        self._clock = clock
        self._wake = threading.Condition()
        # The time of the next attempt, the time it was added, and the port.
        self._waiting: list[tuple[float, float, str]] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, port_id: str) -> None:
        """Delete a port as soon as no server has it."""
        now = self._clock.monotonic()
        with self._wake:
            self._waiting.append((now + _FIRST_S, now, port_id))
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._run, name='kiln-port-reaper', daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Stop; the remaining ports are left to the orphan sweep."""
        with self._wake:
            self._closed = True
            left = [port_id for _, _, port_id in self._waiting]
            self._wake.notify()
        for port_id in left:
            LOG.warning('Port %s stays until the orphan sweep: kiln was closed', port_id)

    def _run(self) -> None:
        while True:
            with self._wake:
                if self._closed or not self._waiting:
                    self._thread = None
                    return
                self._waiting.sort()
                due, since, port_id = self._waiting[0]
                now = self._clock.monotonic()
                if due > now:
                    self._clock.wait(self._wake, due - now)
                    continue
                del self._waiting[0]
            self._try(port_id, since)

    def _try(self, port_id: str, since: float) -> None:
        try:
            self._ports.delete(Asked(verb='delete port', subject=port_id), port_id)
        except AmphoraComputeError as exc:
            now = self._clock.monotonic()
            if now - since > _GIVE_UP_S:
                LOG.warning('Port %s stays until the orphan sweep: %s', port_id, exc)
                return
            with self._wake:
                again_s = min(_LONGEST_S, max(_FIRST_S, (now - since) / 2))
                self._waiting.append((now + again_s, since, port_id))
