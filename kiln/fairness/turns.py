"""The order in which parties come to something that they share."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

#: All callers that name no party.
NOBODY = ''
_party: contextvars.ContextVar[str] = contextvars.ContextVar('kiln_party', default=NOBODY)
#: Parties that are remembered before those without a debt are forgotten.
_MANY = 1000


def current_party() -> str:
    """Return the party for which the current thread works."""
    return _party.get()


@contextlib.contextmanager
def on_behalf_of(party: str) -> Iterator[None]:
    """Count what is requested inside the block as used by a party."""
    reset = _party.set(party)
    try:
        yield
    finally:
        _party.reset(reset)


class FairTurns:
    """Gives places in a queue, smallest first; pure. The caller holds a lock.

    The place of a party moves back by what the party uses. A party that is new, or has used
    little, is placed where the queue is now, before all that have used more; so the wait of a
    party does not depend on how much others request. This is start-time fair queueing.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._next: dict[str, float] = {}
        self._many = _MANY

    def place(self, party: str) -> float:
        """Return the place of the next thing that a party wants."""
        return max(self._now, self._next.get(party, 0.0))

    def use(self, party: str, amount: float) -> None:
        """Record that a party uses something: a number of calls, or seconds."""
        self._next[party] = self.place(party) + amount
        if len(self._next) > self._many:
            self._next = {one: at for one, at in self._next.items() if at > self._now}
            self._many = max(_MANY, 2 * len(self._next))

    def serve(self, place: float) -> None:
        """Record that the turn of a place has come."""
        self._now = max(self._now, place)
