"""Servers whose state could not be verified, until a reader has received it.

Nova does not report such a server as changed again, so it is requested by its id.
This ends only when an answer with its state has arrived: a complete answer can
still be lost to a deadline above this driver.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable


class Unproven:
    """Remembers the servers to request by id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By id: the cursor of the first answer with its verified state; empty before the
        # first such answer, and None while the state is not verified.
        self._servers: dict[str, str | None] = {}

    def __contains__(self, server_id: str) -> bool:
        return server_id in self._servers

    def add(self, server_id: str) -> None:
        """Add a server whose state could not be verified."""
        with self._lock:
            self._servers[server_id] = None

    def judged(self, server_id: str) -> None:
        """Record that the state of a server is verified now."""
        with self._lock:
            if server_id in self._servers:
                self._servers[server_id] = self._servers[server_id] or ''

    def forget(self, server_id: str) -> None:
        """Record that a server no longer exists."""
        with self._lock:
            self._servers.pop(server_id, None)

    def told(self, server_ids: Collection[str], cursor: str) -> None:
        """Record an answer: the servers in it, and the cursor its reader continues from."""
        with self._lock:
            for server_id, told_at in self._servers.items():
                if told_at is not None:
                    # The first answer of an unbroken series with this server.
                    self._servers[server_id] = (
                        (told_at or cursor) if server_id in server_ids else ''
                    )

    def kept(self, server_ids: Iterable[str]) -> None:
        """Drop servers whose verified state is kept elsewhere until it has arrived."""
        with self._lock:
            for server_id in server_ids:
                if self._servers.get(server_id) is not None:
                    del self._servers[server_id]

    def arrived(self, cursor: str) -> None:
        """Drop the servers whose state a reader with this cursor has received."""
        with self._lock:
            for server_id, told_at in list(self._servers.items()):
                # Not at an equal cursor: cursors are whole seconds, and of two answers
                # with the same cursor perhaps only the first has arrived.
                if told_at and told_at < cursor:
                    del self._servers[server_id]

    def ids(self) -> list[str]:
        """Return the ids of the servers to request, sorted."""
        with self._lock:
            return sorted(self._servers)
