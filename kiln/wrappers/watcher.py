"""One thread per backend that looks for all who wait for its amphorae."""

from __future__ import annotations

import dataclasses
import functools
import logging
import threading
from collections.abc import Collection
from typing import Any

from kiln.clock import Deadline
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import (
    AmphoraComputeError,
    InvalidRequest,
    OperationTimeout,
)
from kiln.listeners import Listener, Listeners
from kiln.models import ComputeStatus, State
from kiln.wrappers.inquiry import Inquiry
from kiln.wrappers.moments import Moment, Order
from kiln.wrappers.pace import Pace, WatcherSettings
from kiln.wrappers.scheduler import Scheduler
from kiln.wrappers.watch import GoneWatch, OnStatus, StateWatch, Watch
from kiln.wrappers.watch_table import WatchTable

__all__ = ['Watcher', 'WatcherSettings']

LOG = logging.getLogger(__name__)

#: How long the thread stays when nobody waits any more.
LINGER_S = 10.0
#: How long close() waits for a look that is under way.
CLOSE_S = 1.0


class Watcher:
    """Serves every waiter of one backend from one bulk question per look.

    Promises are kept, and callbacks called, on the watcher's thread; deadlines
    on the scheduler's, so that a backend that hangs does not hold them up.
    Trouble with the backend ends nobody's wait: the watcher backs off and
    looks again.
    """

    def __init__(
        self,
        driver: AmphoraComputeDriver,
        *,
        scheduler: Scheduler,
        settings: WatcherSettings = WatcherSettings(),  # noqa: B008  # frozen
        listener: Listener = Listener(),  # noqa: B008  # has no state
        close_s: float = CLOSE_S,
    ) -> None:
        self._backend = driver.name
        self._clock = driver.clock
        self._scheduler = scheduler
        self._settings = settings
        self._listener = Listeners([listener])
        self._close_s = close_s
        self._table = WatchTable()
        self._inquiry = Inquiry(driver, full_sweep_s=settings.full_sweep_s)
        # What follows changes under this condition, on which the thread sleeps.
        self._wake = threading.Condition()
        self._pace = Pace(settings)
        self._thread: threading.Thread | None = None
        self._closed = False
        # Only the thread sets these.
        self._outage: BaseException | None = None
        self._outage_began = 0.0
        driver.on_news(functools.partial(self._hurry, news=True))

    # ---- for callers ----------------------------------------------------

    def watch(
        self,
        amphora_id: str,
        goal: Collection[State],
        *,
        deadline: Deadline | None = None,
        on_status: OnStatus | None = None,
        soonest_s: float = 0.0,
        order: Order | None = None,
        brief: bool = False,
        fails_at_rest: bool = False,
    ) -> Watch[ComputeStatus]:
        """Return a promise of the status in which an amphora reaches a state of the goal.

        ACTIVE counts once no task is under way. ``on_status`` hears of each
        change until then; it must be quick. Cancel the promise to stop. Before
        ``soonest_s`` have passed nobody looks for its sake. ``order`` is when
        the amphora was ordered: a look less may do then. With ``brief``
        the status may say no more than that what was being built is ACTIVE, which
        some backends tell for far less. With ``fails_at_rest`` one that is suspended or
        stopped, with nothing under way, fails with BuildNotRunning: a build that adopted
        it would wait in vain.

        It fails with InstanceNotFoundError when the amphora is gone;
        InsufficientCapacity, QuotaExceeded or AmphoraBuildError when it is in
        error; OperationTimeout at the deadline; OperationCancelled when the
        watcher is closed.
        """
        watch = StateWatch(self, self._backend, amphora_id, _states(frozenset(goal)), on_status)
        watch.order, watch.brief, watch.fails_at_rest = order, brief, fails_at_rest
        self._begin(watch, deadline, soonest_s)
        return watch

    def watch_gone(
        self, amphora_id: str, *, deadline: Deadline | None = None, was_well: bool = False
    ) -> GoneWatch:
        """Return a promise that is kept when an amphora is gone.

        It fails with DeleteFailed when the amphora goes to ERROR, OperationTimeout at the
        deadline and OperationCancelled when the watcher is closed. ``was_well`` says that
        it was at rest, and not in ERROR, before it was deleted.
        """
        watch = GoneWatch(self, self._backend, amphora_id)
        watch.was_well = was_well
        self._begin(watch, deadline)
        return watch

    def moment(self) -> Moment | None:
        """Return the present moment; None of a backend that cannot name one unasked."""
        return self._inquiry.moment()

    def latest(self, amphora_id: str) -> ComputeStatus | None:
        """Return what was last seen of an amphora that is or was watched; ask nobody.

        It is ``stale`` where it is old or the backend could not be asked since.
        """
        sighting = self._table.latest(amphora_id)
        if sighting is None:
            return None
        status, age_s = sighting.status, self._clock.monotonic() - sighting.at
        stale = self._outage is not None or age_s > self._settings.oldest_s
        return dataclasses.replace(status, stale=status.stale or stale)

    def close(self) -> None:
        """Cancel all waits and end the thread; safe to repeat."""
        with self._wake:
            self._closed = True
            self._wake.notify()
            thread = self._thread
        for watch in self._table.watches():
            self._cancel(watch)
        if thread is not None and thread is not threading.current_thread():
            # Not for long: a backend that hangs holds up a daemon, and nobody else.
            thread.join(timeout=self._close_s)

    @property
    def idle(self) -> bool:
        """Whether nobody waits for anything."""
        return not len(self._table)

    def disown(self) -> None:
        """Look no more in the child of a fork: whoever waits is in the parent."""
        self._wake = threading.Condition()
        self._thread, self._closed = None, True

    # ---- the life of a watch --------------------------------------------

    def _begin(self, watch: Watch[Any], deadline: Deadline | None, soonest_s: float = 0.0) -> None:
        if deadline is not None:
            watch.deadline, wait_s = deadline, deadline.remaining_s()
            # One appointment for both, as most waits end before either.
            wait_s -= self._pace.last_look_s(wait_s)
            watch.appointment = self._scheduler.call_later(wait_s, watch.expire)
        with self._wake:
            closed = self._closed
            if not closed:
                self._enter(watch, soonest_s)
        if closed:
            self._cancel(watch)
        # Its deadline may have come before it was entered.
        elif watch.done():
            self._table.drop(watch)

    def _enter(self, watch: Watch[Any], soonest_s: float) -> None:
        self._table.add(watch)
        # Later arrivals share the look that the first one has hurried.
        self._hurry(soonest_s)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name=f'{self._backend}-watcher', daemon=True
            )
            self._thread.start()

    def _hurry(self, in_s: float = 0.0, *, news: bool = False) -> None:
        with self._wake:
            if self._pace.hurry(self._clock.monotonic() + in_s, news=news):
                self._wake.notify()

    def ended(self, watch: Watch[Any]) -> None:
        """Forget a watch that has its outcome."""
        if watch.appointment is not None:
            watch.appointment.cancel()
        self._table.drop(watch)

    def expire(self, watch: Watch[Any]) -> None:
        """End a watch whose deadline has come; look once more where it is near.

        Looks may be far apart, and what happened since the last one must not end as a
        timeout. Waits that end together share the look.
        """
        if watch.deadline is not None and not watch.deadline.passed:
            with self._wake:
                if self._pace.look_last(self._clock.monotonic()):
                    self._wake.notify()
            watch.appointment = self._scheduler.call_later(
                watch.deadline.remaining_s(), watch.expire
            )
            return
        text = (
            f'Cannot wait longer for amphora {watch.amphora_id} to be {watch.wanted} on '
            f'{self._backend!r}: {self._last_seen(watch.amphora_id)}.'
        )
        if self._outage is not None:
            text += f' The backend gives no answer now: {self._outage}'
        watch.fail(OperationTimeout(text, backend=self._backend, amphora_id=watch.amphora_id))

    def _last_seen(self, amphora_id: str) -> str:
        sighting = self._table.latest(amphora_id)
        if sighting is None:
            return 'it was never seen'
        status, age_s = sighting.status, self._clock.monotonic() - sighting.at
        task = f' ({status.task_state})' if status.task_state else ''
        return f'it was {status.state}{task} when last seen, {age_s:.1f} s ago'

    def _cancel(self, watch: Watch[Any]) -> None:
        watch.cancel(f'the watcher of {self._backend!r} is closed')

    # ---- the thread -----------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._await_turn():
                    self._thread = None
                    return
                due = self._pace.due
            self._tick(due)

    def _await_turn(self) -> bool:
        """Sleep until a look is due; False if the thread is to end."""
        leave_at = None
        while not self._closed:
            now = self._clock.monotonic()
            if len(self._table):
                leave_at, until = None, self._pace.due
                if until <= now:
                    return True
            else:
                self._pace.rest()
                until = leave_at = leave_at or now + LINGER_S
                if until <= now:
                    return False
            self._clock.wait(self._wake, until - now)
        return False

    def _tick(self, due: float) -> None:
        started, asked_at = self._clock.monotonic(), self._clock.time()
        try:
            moved = self._look(started)
        # Also what is no Exception: a SystemExit from deep within a client
        # library would end the watching of everybody, and silently.
        except BaseException as exc:
            self._missed(exc)
        else:
            if not self._inquiry.brief:
                self._table.covered(started, asked_at)
            self._answered(started, moved=moved)
        self._listener.ticked(self._backend, len(self._table), started - due)

    def _look(self, started: float) -> bool:
        """Ask, and tell those to whom the answer is news; say if there are any."""
        self._table.admit()
        moved = False
        for answer in self._inquiry.ask(self._table):
            for status in answer.statuses:
                for watch in self._table.saw(status, started):
                    moved = True
                    watch.inform(status)
            for amphora_id in answer.gone:
                for watch in self._table.gone(amphora_id):
                    moved = True
                    watch.vanish(self._clock.time())
        return moved

    def _answered(self, started: float, *, moved: bool) -> None:
        ended = self._clock.monotonic()
        if self._outage is not None:
            LOG.info('Watching %s goes on after %.1f s', self._backend, ended - self._outage_began)
            self._outage = None
        with self._wake:
            self._pace.looked(started, ended, moved=moved)

    def _missed(self, error: BaseException) -> None:
        ended = self._clock.monotonic()
        expected = isinstance(error, AmphoraComputeError)
        if self._outage is None:
            self._outage_began = ended
            if expected:
                LOG.warning('Watching %s is interrupted: %s', self._backend, error)
        if not expected and type(error) is not type(self._outage):
            LOG.error('A defect interrupts watching %s', self._backend, exc_info=error)
        self._outage = error
        retry_after = error.retry_after if isinstance(error, AmphoraComputeError) else None
        with self._wake:
            self._pace.failed(ended, retry_after)


# A fleet waits for the same few states; each watch need not have its own set.
@functools.lru_cache(maxsize=64)
def _states(goal: frozenset[State]) -> frozenset[State]:
    try:
        states = frozenset(map(State, goal))
    except ValueError as exc:
        raise InvalidRequest(f'goal must be a collection of states: {exc}.') from exc
    if not states:
        raise InvalidRequest('goal must name at least one state.')
    return states
