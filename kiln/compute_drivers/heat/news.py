"""Memory of what lists of stacks have shown, since Heat has no list of changes."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence

from kiln.openstack.heat.rows import StackRow

#: Seconds for which a cursor is good, and for which stacks that are gone are remembered.
_KEPT_S = 3600.0


class StackNews:
    """When each stack was first seen in its present state; for any number of threads.

    Times are those at which lists were requested. So a change that a list has missed is
    noted later than the cursor that came with that list.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A cursor of another process says nothing about what was seen here.
        self._mark = uuid.uuid4().hex[:12]
        self._seen: dict[str, tuple[str, float]] = {}
        self._gone: dict[str, float] = {}

    def cursor(self, now: float) -> str:
        """Return the cursor for all changes after a time."""
        return f'{self._mark}:{now:.3f}'

    def since(self, cursor: str, now: float) -> float | None:
        """Return the time of a cursor; None if it is old, or not one of these."""
        mark, _, text = cursor.partition(':')
        if mark != self._mark:
            return None
        try:
            at = float(text)
        except ValueError:
            return None
        return at if 0 <= now - at < _KEPT_S else None

    def note(self, rows: Iterable[StackRow], now: float) -> None:
        """Record a whole list of the stacks of a site that was requested at a time."""
        with self._lock:
            former = dict(self._seen)
            for row in rows:
                state, _ = former.pop(row.id, ('', now))
                if state != row.state:
                    self._seen[row.id] = (row.state, now)
                self._gone.pop(row.id, None)
            for id_, (_, at) in former.items():
                # One that was seen in a later list is only too new for this one.
                if at < now:
                    del self._seen[id_]
                    self._gone[id_] = now
            for id_, at in list(self._gone.items()):
                if now - at >= _KEPT_S:
                    del self._gone[id_]

    def is_new(self, row: StackRow, since: float) -> bool:
        """Return True if the state of a stack was first seen after a time."""
        _, at = self._seen.get(row.id, ('', since))
        return at > since

    def gone(self, since: float) -> Sequence[str]:
        """Return the ids of the stacks that were first missed after a time."""
        with self._lock:
            return tuple(id_ for id_, at in self._gone.items() if at > since)
