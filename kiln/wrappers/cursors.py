"""Cursors of a backend: what it reports as changed since then."""

from __future__ import annotations

import math
from typing import NamedTuple

#: Seconds for which a cursor is kept for builds that were sent before the next one.
KEPT_S = 60.0


class Cursor(NamedTuple):
    """A cursor, and a time of the monotonic clock that is not before it."""

    at: float
    text: str


class BuildCursor(NamedTuple):
    """The cursor from before a build was sent, and when it was sent."""

    #: Before it was sent, and maybe long before, as builds queue.
    cursor: Cursor
    sent_at: float
    #: True if the amphora certainly did not exist before.
    certain: bool = True

    def sent(self, at: float | None) -> BuildCursor:
        """Return it for a build that was sent at a time; None if that is not known."""
        return self if at is None else self._replace(sent_at=at)


class Cursors:
    """The latest cursors up to which everything was reported to those who wait."""

    def __init__(self) -> None:
        self._cursors: list[Cursor] = []

    def add(self, cursor: Cursor) -> None:
        """Add the latest; one before those that are here adds nothing."""
        if self._cursors and cursor.at < self._cursors[-1].at:
            return
        self._cursors.append(cursor)
        while len(self._cursors) > 1 and self._cursors[1].at <= cursor.at - KEPT_S:
            del self._cursors[0]

    def latest(self, before: float = math.inf) -> Cursor | None:
        """Return the latest that is not after another time of the clock."""
        for cursor in reversed(self._cursors):
            if cursor.at <= before:
                return cursor
        return None
