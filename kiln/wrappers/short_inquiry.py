"""Who has been built, by ids alone, where a backend tells that for far less."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.models import ComputeStatus, State
from kiln.wrappers.answer import Answer, answer_by_id
from kiln.wrappers.moments import Moment, Moments
from kiln.wrappers.watch_table import WatchTable

#: Seconds that one may wait for its build until a look at everything is due.
FULL_S = 60.0
#: Seconds between two questions who failed.
TROUBLE_S = 10.0


class ShortInquiry:
    """Asks for those who wait for builds, and knows when more has to be asked.

    Its cursors are its own: what it leaves out, a look at everything has yet to tell.
    """

    def __init__(self, driver: AmphoraComputeDriver) -> None:
        self._driver = driver
        # Up to which it is known who is ACTIVE and who failed. Several, as an order
        # may be on its way while the question moves on.
        self._moments = Moments()
        self._full_at = self._trouble_at = -math.inf

    def begin(self, moment: Moment) -> None:
        """Note that nothing is left to be told of before a moment."""
        self._moments.add(moment)

    def all_asked(self, now: float) -> None:
        """Note a look at everything."""
        self._full_at = self._trouble_at = now

    def ask(self, table: WatchTable, present: Moment, now: float) -> Iterator[Answer] | None:
        """Return the answers; None where a look at everything is due."""
        first = table.first_order()
        if first is None:
            since, waiting_since = self._moments.latest(), self._full_at
        else:
            since = self._moments.latest(first.sent_at)
            waiting_since = max(self._full_at, first.sent_at)
        if (
            since is None
            or now - waiting_since >= FULL_S
            or not table.all_brief()
            or table.unseen(since.at)
        ):
            return None
        found = self._driver.reached(State.ACTIVE, since.cursor)
        if found is None:
            return None
        active = table.among(found)
        # Of others, ACTIVE may not mean that nothing is being done to them.
        if not table.all_building(active):
            return None
        return self._answers(table, active, since, present, now)

    def _answers(
        self,
        table: WatchTable,
        active: tuple[str, ...],
        since: Moment,
        present: Moment,
        now: float,
    ) -> Iterator[Answer]:
        at = self._driver.clock.time()
        yield Answer(
            [ComputeStatus(amphora_id=one, state=State.ACTIVE, observed_at=at) for one in active]
        )
        if now - max(self._trouble_at, since.at) < TROUBLE_S:
            return
        failed = self._driver.reached(State.ERROR, since.cursor)
        if failed is not None:
            yield answer_by_id(self._driver, table.among(failed))
            self._moments.add(present)
        self._trouble_at = now
