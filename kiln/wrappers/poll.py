"""Poll of a backend: the cheapest true question for all who wait."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import ComputeStatus, State
from kiln.wrappers.active_poll import ActivePoll
from kiln.wrappers.cursors import Cursor
from kiln.wrappers.waiter_table import WaiterTable, missing

#: Up to so many amphorae are polled by id while that may be cheaper.
FEW = 16


class Answer(NamedTuple):
    """Part of what the backend answered; the gone are known to be gone."""

    statuses: Iterable[ComputeStatus]
    gone: Iterable[str] = ()


class Poll:
    """Polls a driver for the amphorae that are waited for, in one call where possible.

    The rule, and why it is the cheapest that is true:

    * A driver with a useful cursor is asked what changed since: one request,
      and as much work as has changed, however many wait. What a new waiter
      waits for may have happened before the cursor, so it is polled by id
      once, together with all that are new; an amphora that certainly did not
      exist then is reported by the cursor.
    * Where nobody depends on what an old cursor has to report, a driver that can
      give a new one without a request begins with that: an old one may have
      hours to report. The best to begin with is from just before the first of
      those amphorae was made.
    * Where all wait for builds, it is enough to know who is ACTIVE; some drivers
      report that for far less. Who failed is polled now and then besides, and
      the next full poll reports all the rest.
    * Other drivers answer a cursor with everything there is, most
      of which may be of no interest. So ``FEW`` are polled by id: the driver
      has the choice between a request for each and one list, and takes the
      better.
    * A driver without cursors (the default: each answer is everything) is
      polled by id as well. It lists the same, and its answer is final, while
      what a list leaves out must be polled once more.

    Every ``full_sweep_s`` all are polled by id all the same: for a change
    that was never reported, and for an amphora of another owner, which
    changes() does not report.
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
        #: True if the last poll was for some states, and reports nothing of the others.
        self.brief = False

    def present(self) -> Cursor | None:
        """Return the present cursor; None if the driver gives none without a request."""
        text = self._driver.cursor()
        return self._dated(text) if text else None

    def _dated(self, text: str) -> Cursor:
        """Return a cursor with a time that is not before it."""
        return Cursor(self._driver.clock.monotonic(), text)

    def answers(self, table: WaiterTable) -> Iterator[Answer]:
        """Yield answers with the news of every amphora that is waited for.

        Each answer must be taken in before the next is requested: a cursor
        moves on only after that, so what was not taken in is reported again.
        """
        now = self._driver.clock.monotonic()
        self.brief = False
        present = self.present()
        if present is not None and table.all_unseen():
            first, begun = table.first_build(), present
            # What was made elsewhere, and found, is not reported by the cursor of its build.
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
        # Also where its answer gets lost: such lists may be more than a backend can do now.
        self._active_poll.all_polled(now)
        yield from self._changes(table, now)
        if present is not None:
            self._active_poll.begin(self._cursor)

    def _changes(self, table: WaiterTable, now: float) -> Iterator[Answer]:
        new = table.unseen(self._cursor.at)
        changes = self._driver.changes(self._cursor.text)
        yield Answer(changes.statuses, changes.gone)
        reported = {status.amphora_id for status in changes.statuses}.union(changes.gone)
        # A list may leave out what is hard to reach; by id is certain.
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
            # Instead of a sweep, which each poll is, see if there is a cursor now.
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
