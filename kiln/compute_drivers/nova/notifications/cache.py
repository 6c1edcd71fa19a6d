"""Cache of the server states that Nova's notifications have reported."""

from __future__ import annotations

import math
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kiln.clock import Clock

#: How many servers are remembered.
MEMORY = 20_000
#: Seconds for which a reported state is trusted; then Nova is polled, as a message might
#: have been lost.
TRUSTED_S = 60.0

Server = Mapping[str, Any]


class Told(NamedTuple):
    """The servers reported since a place, and the place after them."""

    servers: Sequence[Server]
    place: str


class _Entry(NamedTuple):
    server: Server
    number: int
    at: float
    #: True if the bus reported it.
    told: bool


class News:
    """The last reported state of each server in the present session of the bus.

    A session is a time without a break in the connection. A *place* names a
    session and how many reports it had. Nothing is kept from before the session,
    since reports might have been lost between two sessions. Thread-safe; no call
    is slow.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._session = ''
        # By id; the latest report last.
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._newest = self._forgotten = 0

    def __contains__(self, server_id: str) -> bool:
        return server_id in self._entries

    # ---- writing ---------------------------------------------------------

    def begin(self) -> None:
        """Begin a session: from now on every change is reported."""
        self._turn(uuid.uuid4().hex[:12])

    def end(self) -> None:
        """End the session: from now on reports can be lost."""
        self._turn('')

    def _turn(self, session: str) -> None:
        with self._lock:
            self._session = session
            self._entries.clear()
            self._forgotten = self._newest

    def tell(self, server: Server) -> None:
        """Store a state that the bus reported."""
        with self._lock:
            self._put(server, told=True)

    def note(self, server: Server, asked_at: str) -> None:
        """Store a state that Nova returned, unless the bus reported it since that place."""
        with self._lock:
            number = self._number(asked_at)
            known = self._entries.get(server['id'])
            if number is not None and (known is None or known.number <= number):
                self._put(server, told=False)

    def doubt(self, server_id: str) -> None:
        """Treat a server as unknown until its next report."""
        with self._lock:
            if entry := self._entries.get(server_id):
                self._entries[server_id] = entry._replace(at=-math.inf)

    def _put(self, server: Server, *, told: bool) -> None:
        self._newest += 1
        now = self._clock.monotonic()
        self._entries[server['id']] = _Entry(server, self._newest, now, told)
        self._entries.move_to_end(server['id'])
        if len(self._entries) > MEMORY:
            _, oldest = self._entries.popitem(last=False)
            self._forgotten = oldest.number

    # ---- reading ---------------------------------------------------------

    def place(self) -> str:
        """Return the present place; empty while the bus is not connected."""
        with self._lock:
            return self._place()

    def since(self, place: str) -> Told | None:
        """Return the reports since a place; None if some of them might be missing."""
        with self._lock:
            number = self._number(place)
            if number is None or number < self._forgotten:
                return None
            servers: list[Server] = []
            for entry in reversed(self._entries.values()):
                if entry.number <= number:
                    break
                servers.append(entry.server)
            return Told(servers[::-1], self._place())

    def last(self, server_id: str) -> Server | None:
        """Return the last report about a server, even if it is no longer trusted."""
        with self._lock:
            entry = self._entries.get(server_id)
            return None if entry is None else entry.server

    def known(self, server_id: str) -> Server | None:
        """Return the last report about a server if it is still trusted."""
        with self._lock:
            entry = self._entries.get(server_id)
            if entry is None or self._clock.monotonic() - entry.at > TRUSTED_S:
                return None
            return entry.server

    def reported(self, server_id: str) -> Server | None:
        """Return what is known about a server if the bus reported it."""
        with self._lock:
            entry = self._entries.get(server_id)
        return self.known(server_id) if entry is not None and entry.told else None

    def _place(self) -> str:
        return self._session and f'{self._session}.{self._newest}'

    def _number(self, place: str) -> int | None:
        session, _, number = place.partition('.')
        return int(number) if session and session == self._session else None
