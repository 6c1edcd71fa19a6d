"""Cursors of a backend: positions in its stream of changes."""

from __future__ import annotations

import math
from typing import NamedTuple

#: Seconds for which a cursor is kept for builds that were sent before the next cursor.
KEPT_S = 60.0


class Cursor(NamedTuple):
    """A cursor, and a time of the monotonic clock that is not before it."""

    at: float
    text: str


class BuildCursor(NamedTuple):
    """The cursor from before a build was sent, and when the build was sent."""

    #: Before the build was sent, and possibly long before, because builds queue.
    cursor: Cursor
    sent_at: float
    #: True if the amphora certainly did not exist at the cursor.
    certain: bool = True

    def sent(self, at: float | None) -> BuildCursor:
        """Return it for a build that was sent at a time; None if the time is not known."""
        return self if at is None else self._replace(sent_at=at)


class Cursors:
    """The latest cursors up to which everything was reported to the waiters."""

    def __init__(self) -> None:
        self._cursors: list[Cursor] = []

    def add(self, cursor: Cursor) -> None:
        """Add the latest cursor; an earlier cursor adds nothing."""
        if self._cursors and cursor.at < self._cursors[-1].at:
            return
        self._cursors.append(cursor)
        while len(self._cursors) > 1 and self._cursors[1].at <= cursor.at - KEPT_S:
            del self._cursors[0]

    def latest(self, before: float = math.inf) -> Cursor | None:
        """Return the latest cursor that is not after a time of the clock."""
        for cursor in reversed(self._cursors):
            if cursor.at <= before:
                return cursor
        return None
