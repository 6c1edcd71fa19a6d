"""Poll for finished builds, by ids alone, where a backend answers that for far less."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import State
from kiln.wrappers.cursors import Cursor, Cursors
from kiln.wrappers.waiter_table import WaiterTable

#: Seconds that a waiter can wait for its build until a poll for everything is due.
FULL_S = 60.0
#: Seconds between two polls for the builds that failed.
TROUBLE_S = 10.0


class ActivePoll:
    """Polls for those who wait for builds, and knows when more has to be polled.

    Its cursors are its own: what it leaves out is left to a poll for everything.
    """

    def __init__(self, driver: AmphoraComputeDriver) -> None:
        self._driver = driver
        # Up to which it is known who is ACTIVE and who failed. Several, as a build
        # may be on its way while the poll moves on.
        self._cursors = Cursors()
        self._full_at = self._trouble_at = -math.inf

    def begin(self, cursor: Cursor) -> None:
        """Note that everything before a cursor has been reported."""
        self._cursors.add(cursor)

    def all_polled(self, now: float) -> None:
        """Note a poll for everything."""
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
        # Of others, ACTIVE may not mean that nothing is being done to them.
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
