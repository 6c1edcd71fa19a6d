"""What is known of servers without asking for it; asks nobody."""

from __future__ import annotations

import math
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kiln.clock import Clock

#: Servers of which the last is remembered.
MEMORY = 20_000
#: Seconds for which what was told holds; then Nova is asked, as a message may be lost.
TRUSTED_S = 60.0

Server = Mapping[str, Any]


class Told(NamedTuple):
    """What was told since a place, and the place after it."""

    servers: Sequence[Server]
    place: str


class _Entry(NamedTuple):
    server: Server
    number: int
    at: float


class News:
    """The last of each server that was told while the bus was heard without a break.

    A *place* names a session (a time without a break) and how much had been
    told. Of what was told before the session nothing is kept, since what was
    told between is not known. Thread-safe; no call is slow.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._session = ''
        # By id, the last told last.
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._newest = self._forgotten = 0

    def __contains__(self, server_id: str) -> bool:
        return server_id in self._entries

    # ---- what is told ----------------------------------------------------

    def begin(self) -> None:
        """Begin a session: from now on all is told."""
        self._turn(uuid.uuid4().hex[:12])

    def end(self) -> None:
        """End the session: what is told may be lost."""
        self._turn('')

    def _turn(self, session: str) -> None:
        with self._lock:
            self._session = session
            self._entries.clear()
            self._forgotten = self._newest

    def tell(self, server: Server) -> None:
        """Take in what the bus told."""
        with self._lock:
            self._put(server)

    def note(self, server: Server, asked_at: str) -> None:
        """Take in what Nova answered, unless more was told since the place it was asked at."""
        with self._lock:
            number = self._number(asked_at)
            known = self._entries.get(server['id'])
            if number is not None and (known is None or known.number <= number):
                self._put(server)

    def doubt(self, server_id: str) -> None:
        """Hold nothing of a server for certain until more is told of it."""
        with self._lock:
            if entry := self._entries.get(server_id):
                self._entries[server_id] = entry._replace(at=-math.inf)

    def _put(self, server: Server) -> None:
        self._newest += 1
        self._entries[server['id']] = _Entry(server, self._newest, self._clock.monotonic())
        self._entries.move_to_end(server['id'])
        if len(self._entries) > MEMORY:
            _, oldest = self._entries.popitem(last=False)
            self._forgotten = oldest.number

    # ---- what is known ---------------------------------------------------

    def place(self) -> str:
        """Return how much has been told; empty while the bus is not heard."""
        with self._lock:
            return self._place()

    def since(self, place: str) -> Told | None:
        """Return what was told since a place; None where that is not known."""
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
        """Return what was last told of a server, certain or not."""
        with self._lock:
            entry = self._entries.get(server_id)
            return None if entry is None else entry.server

    def known(self, server_id: str) -> Server | None:
        """Return what a server is, where that is certain."""
        with self._lock:
            entry = self._entries.get(server_id)
            if entry is None or self._clock.monotonic() - entry.at > TRUSTED_S:
                return None
            return entry.server

    def _place(self) -> str:
        return self._session and f'{self._session}.{self._newest}'

    def _number(self, place: str) -> int | None:
        session, _, number = place.partition('.')
        return int(number) if session and session == self._session else None
