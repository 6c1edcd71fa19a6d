"""Poll of a backend: the cheapest reliable request for all waiters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import ComputeStatus, State
from kiln.wrappers.watcher.cursors import Cursor, Cursors
from kiln.wrappers.watcher.waiter_table import WaiterTable, missing

#: Maximum number of amphorae that are polled by id where that can be cheaper.
FEW = 16
#: Seconds that a waiter can wait for its build until a full poll is due.
FULL_S = 60.0
#: Seconds between two polls for failed builds.
TROUBLE_S = 10.0


class Answer(NamedTuple):
    """Part of the backend's answer; amphorae in ``gone`` are certainly gone."""

    statuses: Iterable[ComputeStatus]
    gone: Iterable[str] = ()


class Poll:
    """Polls a driver for the awaited amphorae, in one call if possible.

    The rules, and why they are the cheapest reliable ones:

    * A driver with a useful cursor is polled for the changes since then: one request,
      whose cost depends on the changes and not on the number of waiters. The state that a
      new waiter waits for might have been reached before the cursor, so its amphora is
      polled by id once, together with all new ones. An amphora that certainly did not
      exist at the cursor is reported by the cursor.
    * If no waiter depends on the reports of an old cursor, a driver that can return a new
      cursor without a request starts with that, because an old cursor might report the
      changes of hours. The best first cursor is from just before the first of those
      amphorae was made.
    * If all waiters wait for builds, the ACTIVE amphorae are enough; some drivers report
      these for far less. Failed builds are polled separately now and then, and the next
      full poll reports all the rest.
    * Other drivers answer a cursor with everything, most of which might be irrelevant. So
      up to ``FEW`` amphorae are polled by id: the driver can choose between a request
      for each and one list, and takes the better.
    * A driver without cursors (the default: each answer is complete) is polled by id as
      well. It lists the same, and its answer is final, while an amphora missing from a
      list must be polled once more.

    In addition, every ``full_sweep_s`` all amphorae are polled by id: for a change that was
    never reported, and for an amphora of another owner, which changes() does not report.
    """

    def __init__(self, driver: AmphoraComputeDriver, *, full_sweep_s: float) -> None:
        self._driver = driver
        self._full_sweep_s = full_sweep_s
        self._cursor = Cursor(-math.inf, '')
        # True if the driver lacks cursors; None until it was polled for changes.
        self._cursorless: bool | None = None
        # True if the last answer to a cursor was less than everything.
        self._incremental = False
        self._swept_at = driver.clock.monotonic()
        self._active_poll = ActivePoll(driver)
        #: True if the last poll was for some states, and reports nothing about other states.
        self.brief = False

    def present(self) -> Cursor | None:
        """Return the present cursor; None if the driver returns none without a request."""
        text = self._driver.cursor()
        return self._dated(text) if text else None

    def _dated(self, text: str) -> Cursor:
        """Return a cursor with a time that is not before it."""
        return Cursor(self._driver.clock.monotonic(), text)

    def answers(self, table: WaiterTable) -> Iterator[Answer]:
        """Yield answers with the changes of every awaited amphora.

        Each answer must be processed before the next is requested: a cursor advances only
        after that, so unprocessed changes are reported again.
        """
        now = self._driver.clock.monotonic()
        self.brief = False
        present = self.present()
        if present is not None and table.all_unseen():
            first, begun = table.first_build(), present
            # The cursor of a build does not report an amphora that was made elsewhere.
            if first is not None and first.cursor.at >= self._cursor.at:
                begun = first.cursor
            self._cursor, self._incremental = begun, True
            self._active_poll.begin(begun)
        if self._by_id(len(table), now):
            yield self._statuses(table.ids())
            self._active_poll.all_polled(now)
            if not self._cursorless:
                self._swept_at = now
            return
        if present is not None and self._incremental:
            reached = self._active_poll.reached(table, present, now)
            if reached is not None:
                self.brief = True
                for state, ids in reached:
                    yield self._active(ids) if state is State.ACTIVE else self._statuses(ids)
                return
        # Even if the answer is lost: such lists can be more than a backend can handle now.
        self._active_poll.all_polled(now)
        yield from self._changes(table, now)
        if present is not None:
            self._active_poll.begin(self._cursor)

    def _changes(self, table: WaiterTable, now: float) -> Iterator[Answer]:
        new = table.unseen(self._cursor.at)
        changes = self._driver.changes(self._cursor.text)
        yield Answer(changes.statuses, changes.gone)
        reported = {status.amphora_id for status in changes.statuses}.union(changes.gone)
        # A list can leave out what is unreachable; reading by id is certain.
        if absent := missing(table.ids() if changes.complete else new, reported):
            yield self._statuses(absent)
        if changes.complete:
            self._swept_at = now
        self._incremental = not changes.complete
        self._cursorless = not changes.cursor
        self._cursor = self._dated(changes.cursor)

    def _by_id(self, watched: int, now: float) -> bool:
        sweep = now - self._swept_at >= self._full_sweep_s
        if self._cursorless:
            # Instead of a sweep, which each poll is, check if there is a cursor now.
            return not sweep
        return sweep or (watched <= FEW and not self._incremental)

    def _active(self, ids: tuple[str, ...]) -> Answer:
        at = self._driver.clock.time()
        return Answer(
            [ComputeStatus(amphora_id=one, state=State.ACTIVE, observed_at=at) for one in ids]
        )

    def _statuses(self, ids: tuple[str, ...]) -> Answer:
        found = self._driver.statuses(ids)
        return Answer(found.values(), missing(ids, found))


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
