"""Moments of which a backend can tell what changed since."""

from __future__ import annotations

import math
from typing import NamedTuple

#: Seconds for which a moment is kept for those ordered before the next one.
KEPT_S = 60.0


class Moment(NamedTuple):
    """A moment of which a backend can tell what changed since."""

    #: By the monotonic clock; not before that of the cursor.
    at: float
    cursor: str


class Order(NamedTuple):
    """When an amphora was ordered."""

    #: Before it was sent, and maybe long before, as orders queue.
    moment: Moment
    sent_at: float
    #: Whether the amphora is certain not to have been there already.
    certain: bool = True


class Moments:
    """The latest moments up to which all was told of those who wait."""

    def __init__(self) -> None:
        self._moments: list[Moment] = []

    def add(self, moment: Moment) -> None:
        """Add the latest; one before those that are here is nothing new."""
        if self._moments and moment.at < self._moments[-1].at:
            return
        self._moments.append(moment)
        while len(self._moments) > 1 and self._moments[1].at <= moment.at - KEPT_S:
            del self._moments[0]

    def latest(self, before: float = math.inf) -> Moment | None:
        """Return the latest that is not after another moment of the clock."""
        for moment in reversed(self._moments):
            if moment.at <= before:
                return moment
        return None
