"""Active poll: only the ids of finished builds, where the backend makes that cheap."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import State
from kiln.wrappers.watcher.cursors import Cursor, Cursors
from kiln.wrappers.watcher.waiter_table import WaiterTable

#: Seconds that a waiter can wait for its build until a full poll is due.
FULL_S = 60.0
#: Seconds between two polls for failed builds.
TROUBLE_S = 10.0


class ActivePoll:
    """Polls for waiters of builds, and reports when a full poll is due.

    It has its own cursors: changes that it omits are left to the next full poll.
    """

    def __init__(self, driver: AmphoraComputeDriver) -> None:
        self._driver = driver
        # Cursors up to which ACTIVE and failed amphorae are known. Several, because a
        # build can be in flight while the poll advances.
        self._cursors = Cursors()
        self._full_at = self._trouble_at = -math.inf

    def begin(self, cursor: Cursor) -> None:
        """Record that everything before a cursor has been reported."""
        self._cursors.add(cursor)

    def all_polled(self, now: float) -> None:
        """Record a full poll."""
        self._full_at = self._trouble_at = now

    def reached(
        self, table: WaiterTable, present: Cursor, now: float
    ) -> Iterator[tuple[State, tuple[str, ...]]] | None:
        """Return states and the ids that reached them; None if a full poll is due."""
        first = table.first_build()
        if first is None:
            since, waiting_since = self._cursors.latest(), self._full_at
        else:
            since = self._cursors.latest(first.sent_at)
            waiting_since = max(self._full_at, first.sent_at)
        if (
            since is None
            or now - waiting_since >= FULL_S
            or not table.all_brief()
            or table.unseen(since.at)
        ):
            return None
        found = self._driver.reached(State.ACTIVE, since.text)
        if found is None:
            return None
        active = table.among(found)
        # For other amphorae, ACTIVE does not exclude a task in progress.
        if not table.all_building(active):
            return None
        return self._reached(table, active, since, present, now)

    def _reached(
        self,
        table: WaiterTable,
        active: tuple[str, ...],
        since: Cursor,
        present: Cursor,
        now: float,
    ) -> Iterator[tuple[State, tuple[str, ...]]]:
        yield State.ACTIVE, active
        if now - max(self._trouble_at, since.at) < TROUBLE_S:
            return
        failed = self._driver.reached(State.ERROR, since.text)
        if failed is not None:
            yield State.ERROR, table.among(failed)
            self._cursors.add(present)
        self._trouble_at = now
