"""Deleted servers whose end Nova might never report in a list of changes.

A server that is deleted before it has a host leaves no row behind, so it is in no
list of changes. And while it is being deleted, its build can continue and briefly
make it ACTIVE.
"""

from __future__ import annotations

import threading
from collections.abc import Collection

from kiln.clock import Clock

#: Seconds after which a list of changes should have reported a server.
_SILENT_S = 3.0
#: Seconds between two requests for a server that does not disappear.
_AGAIN_S = 5.0
#: Seconds for which an end is reported again to readers with an old cursor.
_KEPT_S = 3600.0


class Departures:
    """Remembers the servers whose delete Nova accepted, and those known to be gone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # By id: when a list of changes should have reported it.
        self._due: dict[str, float] = {}
        # By id: when its end was observed, on both clocks.
        self._ended: dict[str, tuple[float, float]] = {}

    def __contains__(self, server_id: str) -> bool:
        return server_id in self._due

    def began(self, server_id: str) -> None:
        """Record that the delete of a server was accepted."""
        with self._lock:
            self._due[server_id] = self._clock.monotonic() + _SILENT_S

    def ended(self, server_id: str) -> None:
        """Record that a server is gone, if it was deleted here."""
        with self._lock:
            if self._due.pop(server_id, None) is not None:
                self._ended[server_id] = (self._clock.monotonic(), self._clock.time())

    def unheard(self, heard: Collection[str]) -> list[str]:
        """Return the servers to request by id: answers about changes should have had them."""
        now = self._clock.monotonic()
        with self._lock:
            for server_id in heard:
                if server_id in self._due:
                    self._due[server_id] = now + _SILENT_S
            overdue = [server_id for server_id, due in self._due.items() if due <= now]
            for server_id in overdue:
                self._due[server_id] = now + _AGAIN_S
        return overdue

    def ended_since(self, moment: float) -> list[str]:
        """Return the servers whose end was observed since a time of the clock here."""
        now = self._clock.monotonic()
        with self._lock:
            for server_id, (at, _) in list(self._ended.items()):
                if now - at < _KEPT_S:
                    break
                del self._ended[server_id]
            return [server_id for server_id, (_, when) in self._ended.items() if when >= moment]
