"""Servers that a look could not judge, until somebody has been told what they are.

Nova has nothing new to tell of them, so that no answer about changes brings them up
again: each is asked about by its id. That ends only when an answer that tells of it
has arrived: one that was complete may still be lost to a deadline above this driver.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable


class Unproven:
    """Remembers whom to ask about by id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By id: the cursor of the first answer that told of it. Empty where none did yet,
        # and None where there is nothing to be told, for it could not be judged.
        self._servers: dict[str, str | None] = {}

    def __contains__(self, server_id: str) -> bool:
        return server_id in self._servers

    def add(self, server_id: str) -> None:
        """Note a server that could not be judged."""
        with self._lock:
            self._servers[server_id] = None

    def judged(self, server_id: str) -> None:
        """Note that it can be told now what a server is."""
        with self._lock:
            if server_id in self._servers:
                self._servers[server_id] = self._servers[server_id] or ''

    def forget(self, server_id: str) -> None:
        """Note that a server is no more."""
        with self._lock:
            self._servers.pop(server_id, None)

    def told(self, server_ids: Collection[str], cursor: str) -> None:
        """Note an answer, whom it tells of, and where its reader goes on."""
        with self._lock:
            for server_id, told_at in self._servers.items():
                if told_at is not None:
                    # The first of the answers that tell of it without a gap.
                    self._servers[server_id] = (
                        (told_at or cursor) if server_id in server_ids else ''
                    )

    def kept(self, server_ids: Iterable[str]) -> None:
        """Note that what was judged of these is kept elsewhere until it has arrived."""
        with self._lock:
            for server_id in server_ids:
                if self._servers.get(server_id) is not None:
                    del self._servers[server_id]

    def arrived(self, cursor: str) -> None:
        """Note that somebody goes on there, and so has all that was told up to it."""
        with self._lock:
            for server_id, told_at in list(self._servers.items()):
                # Not at the same one: cursors are whole seconds, and two answers may
                # have the same, of which only the first has arrived.
                if told_at and told_at < cursor:
                    del self._servers[server_id]

    def ids(self) -> list[str]:
        """Return the servers to ask about, in order."""
        with self._lock:
            return sorted(self._servers)
