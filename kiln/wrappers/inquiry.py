"""Which question to a backend is the cheapest true one for those who wait."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.wrappers.answer import Answer, answer_by_id
from kiln.wrappers.moments import Moment
from kiln.wrappers.short_inquiry import ShortInquiry
from kiln.wrappers.watch_table import WatchTable, missing

#: Up to so many amphorae are asked for by id while that may be cheaper.
FEW = 16


class Inquiry:
    """Asks a driver about the amphorae watched, in one call where that will do.

    The rule, and why it is the cheapest that is true:

    * A driver with a useful cursor is asked what changed since: one request,
      and as much work as has changed, however many wait. What a new watch
      waits for may have happened before the cursor, so it is looked at by id
      once, together with all that are new; one that was certainly not there yet
      is told of by the cursor.
    * Where nobody depends on what an old cursor has to tell, a driver that can
      give a new one without being asked begins with that: an old one may have
      hours to tell of. The best to begin with is from just before the first of
      those watched was made.
    * Where all wait for builds, it will do to know who is ACTIVE; some drivers
      have that for far less. Who failed is asked for now and then besides, and
      the next look at everything tells all the rest.
    * Of other drivers a cursor costs one answer with everything there is, most
      of which may be of no interest. So ``FEW`` are asked for by id: the driver
      has the choice between a request for each and one list, and takes the
      better.
    * A driver without cursors (the default: each answer is everything) is
      asked by id as well. It lists the same, and its answer is final, while
      what a list leaves out must be asked for once more.

    Every ``full_sweep_s`` all are asked for by id all the same: for a change
    that was never told, and for an amphora of another owner, of which
    changes() does not tell.
    """

    def __init__(self, driver: AmphoraComputeDriver, *, full_sweep_s: float) -> None:
        self._driver = driver
        self._full_sweep_s = full_sweep_s
        self._cursor = Moment(-math.inf, '')
        # Whether the driver lacks cursors; None until it was asked.
        self._cursorless: bool | None = None
        # Whether the last answer to a cursor was less than everything.
        self._incremental = False
        self._swept_at = driver.clock.monotonic()
        self._short = ShortInquiry(driver)
        #: Whether the last look was for some states, and tells nothing of the others.
        self.brief = False

    def moment(self) -> Moment | None:
        """Return the present moment; None of a driver that cannot name one unasked."""
        cursor = self._driver.cursor()
        return self._moment(cursor) if cursor else None

    def _moment(self, cursor: str) -> Moment:
        """Return a moment that is not before that of a cursor."""
        return Moment(self._driver.clock.monotonic(), cursor)

    def ask(self, table: WatchTable) -> Iterator[Answer]:
        """Yield answers that tell of every amphora watched what is new.

        Each answer must be taken in before the next is asked for: a cursor
        moves on only after that, so what was not taken in is told again.
        """
        now = self._driver.clock.monotonic()
        self.brief = False
        present = self.moment()
        if present is not None and table.all_unseen():
            first, begun = table.first_order(), present
            # Who was made elsewhere, and found, is not told of by the moment of its build.
            if first is not None and first.moment.at >= self._cursor.at:
                begun = first.moment
            self._cursor, self._incremental = begun, True
            self._short.begin(begun)
        if self._by_id(len(table), now):
            yield answer_by_id(self._driver, table.ids())
            self._short.all_asked(now)
            if not self._cursorless:
                self._swept_at = now
            return
        if present is not None and self._incremental:
            answers = self._short.ask(table, present, now)
            if answers is not None:
                self.brief = True
                yield from answers
                return
        # Also where its answer gets lost: such lists may be more than a backend can do now.
        self._short.all_asked(now)
        new = table.unseen(self._cursor.at)
        changes = self._driver.changes(self._cursor.cursor)
        yield Answer(changes.statuses, changes.gone)
        told = {status.amphora_id for status in changes.statuses}.union(changes.gone)
        # A list may leave out what is hard to reach; by id is certain.
        if absent := missing(table.ids() if changes.complete else new, told):
            yield answer_by_id(self._driver, absent)
        if changes.complete:
            self._swept_at = now
        self._incremental = not changes.complete
        self._cursorless = not changes.cursor
        self._cursor = self._moment(changes.cursor)
        if present is not None:
            self._short.begin(self._cursor)

    def _by_id(self, watched: int, now: float) -> bool:
        sweep = now - self._swept_at >= self._full_sweep_s
        if self._cursorless:
            # Instead of a sweep, which each look is, see if there is a cursor now.
            return not sweep
        return sweep or (watched <= FEW and not self._incremental)
