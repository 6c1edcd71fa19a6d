"""Watcher: one thread per backend that polls for all waiters of its amphorae."""

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
    CircuitOpenError,
    InvalidRequest,
    OperationTimeout,
)
from kiln.foreign.waiting import Wait, noted_in
from kiln.models import ComputeStatus, State
from kiln.telemetry.events import Listener, Listeners
from kiln.wrappers.operations.errand import SILENT_S, no_answer_so_far
from kiln.wrappers.operations.scheduler import Scheduler
from kiln.wrappers.watcher.cursors import BuildCursor
from kiln.wrappers.watcher.interval import PollInterval, WatcherSettings
from kiln.wrappers.watcher.poll import Poll
from kiln.wrappers.watcher.waiter import GoneWaiter, OnOutage, OnStatus, StateWaiter, Waiter
from kiln.wrappers.watcher.waiter_table import WaiterTable

LOG = logging.getLogger(__name__)

#: Seconds until the thread ends if nothing waits.
LINGER_S = 10.0
#: Maximum seconds that close() waits for a poll in progress.
CLOSE_S = 1.0


class Watcher:
    """Serves every waiter of one backend from one bulk request per poll.

    Promises are resolved, and callbacks called, on the watcher's thread; deadlines on the
    scheduler's thread, so that a hanging backend does not delay them. A failure of the
    backend ends no wait: the watcher backs off and polls again.
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
        self._table = WaiterTable()
        self._poll = Poll(driver, full_sweep_s=settings.full_sweep_s)
        # The following attributes change under this lock, and the thread sleeps on its
        # condition. The lock is entered by itself, see Scheduler.
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._interval = PollInterval(settings)
        self._thread: threading.Thread | None = None
        self._closed = False
        # Only the thread sets these.
        self._outage: BaseException | None = None
        self._outage_began = 0.0
        #: What the waiters were last told of an outage; None if nothing or its end.
        self._reported: BaseException | None = None
        driver.on_news(functools.partial(self._poll_soon, news=True))

    # ---- for callers ----------------------------------------------------

    def watch(
        self,
        amphora_id: str,
        goal: Collection[State],
        *,
        deadline: Deadline | None = None,
        on_status: OnStatus | None = None,
        on_outage: OnOutage | None = None,
        soonest_s: float = 0.0,
        since: BuildCursor | None = None,
        brief: bool = False,
        fails_at_rest: bool = False,
    ) -> Waiter[ComputeStatus]:
        """Return a promise of the status in which an amphora reaches a state of the goal.

        ACTIVE counts once no task is in progress. ``on_status`` is called with each change
        until then, and ``on_outage`` with why the backend cannot be polled, and with None
        once it can be again; both must be quick. Cancel the promise to stop. This waiter causes no
        poll before ``soonest_s`` have passed. ``since`` is the cursor from
        :meth:`before_build`, which can save a poll. With ``brief`` the status can be
        reduced to ACTIVE for what was being built, which some backends report for far
        less. With ``fails_at_rest`` an amphora that is suspended or stopped, with no task
        in progress, fails with BuildNotRunning, because a build that adopted it would wait
        for ever.

        It fails with InstanceNotFoundError when the amphora is gone;
        InsufficientCapacity, QuotaExceeded or AmphoraBuildError when it is in error;
        OperationTimeout at the deadline; OperationCancelled when the watcher is closed.
        """
        waiter = StateWaiter(self, self._backend, amphora_id, _states(frozenset(goal)))
        waiter.on_status, waiter.on_outage, waiter.since = on_status, on_outage, since
        waiter.brief, waiter.fails_at_rest = brief, fails_at_rest
        self._begin(waiter, deadline, soonest_s)
        return waiter

    def watch_gone(
        self,
        amphora_id: str,
        *,
        deadline: Deadline | None = None,
        on_outage: OnOutage | None = None,
        was_well: bool = False,
    ) -> GoneWaiter:
        """Return a promise that is resolved when an amphora is gone.

        It fails with DeleteFailed when the amphora goes to ERROR, OperationTimeout at the
        deadline and OperationCancelled when the watcher is closed. ``was_well`` means that
        it was at rest, and not in ERROR, before it was deleted.
        """
        waiter = GoneWaiter(self, self._backend, amphora_id)
        waiter.on_outage, waiter.was_well = on_outage, was_well
        self._begin(waiter, deadline)
        return waiter

    def before_build(self, *, fresh: bool) -> BuildCursor | None:
        """Return the cursor from before a build; None if the backend has no cursors.

        ``fresh`` means that nothing can have been built with the key of the build.
        """
        cursor = self._poll.present()
        return None if cursor is None else BuildCursor(cursor, cursor.at, certain=fresh)

    def latest(self, amphora_id: str) -> ComputeStatus | None:
        """Return the last status of an amphora that is or was watched, without a poll.

        It is ``stale`` if it is old or the backend could not be polled since.
        """
        seen_status = self._table.latest(amphora_id)
        if seen_status is None:
            return None
        status, age_s = seen_status.status, self._clock.monotonic() - seen_status.at
        stale = self._outage is not None or age_s > self._settings.oldest_s
        return dataclasses.replace(status, stale=status.stale or stale)

    def close(self) -> None:
        """Cancel all waits and end the thread; safe to repeat."""
        with self._lock:
            self._closed = True
            self._wake.notify()
            thread = self._thread
        for waiter in self._table.waiters():
            self._cancel(waiter)
        if thread is not None and thread is not threading.current_thread():
            # Not for long: a hanging backend blocks only a daemon thread.
            thread.join(timeout=self._close_s)

    def resume(self) -> None:
        """Poll now if polls have failed, because the backend answers other calls."""
        with self._lock:
            if self._interval.resume(self._clock.monotonic()):
                self._wake.notify()

    @property
    def idle(self) -> bool:
        """True if nothing waits."""
        return not len(self._table)

    def disown(self) -> None:
        """Stop in the child of a fork: the waiters are in the parent."""
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._thread, self._closed = None, True

    # ---- the life of a waiter -------------------------------------------

    def _begin(
        self, waiter: Waiter[Any], deadline: Deadline | None, soonest_s: float = 0.0
    ) -> None:
        if deadline is not None:
            waiter.deadline, wait_s = deadline, deadline.remaining_s()
            # One appointment for both, because most waits end before either.
            wait_s -= self._interval.last_poll_s(wait_s)
            waiter.appointment = self._scheduler.call_later(wait_s, waiter.expire)
        with self._lock:
            closed = self._closed
            if not closed:
                self._table.add(waiter)
                # Later waiters share the poll that the first waiter has hurried.
                self._poll_soon(soonest_s)
                if self._thread is None:
                    thread = threading.Thread(
                        target=self._run, name=f'{self._backend}-watcher', daemon=True
                    )
                    # Known once it runs: a signal handler can raise in the middle of a start.
                    thread.start()
                    self._thread = thread
            outage = self._reported
        if closed:
            self._cancel(waiter)
        elif outage is not None and waiter.on_outage is not None:
            waiter.on_outage(outage)
        # Its deadline might have passed before it was added.
        elif waiter.done():
            self._table.drop(waiter)

    def _poll_soon(self, in_s: float = 0.0, *, news: bool = False) -> None:
        with self._lock:
            if self._interval.poll_by(self._clock.monotonic() + in_s, news=news):
                self._wake.notify()

    def ended(self, waiter: Waiter[Any]) -> None:
        """Remove a waiter that has its outcome."""
        if waiter.appointment is not None:
            waiter.appointment.cancel()
        self._table.drop(waiter)

    def expire(self, waiter: Waiter[Any]) -> None:
        """End a waiter whose deadline has come; poll once more if it is near.

        Polls can be far apart, and a change since the last poll must not end as a timeout.
        Waits that end together share the poll.
        """
        if waiter.deadline is not None and not waiter.deadline.passed:
            with self._lock:
                if self._interval.poll_last(self._clock.monotonic()):
                    self._wake.notify()
            waiter.appointment = self._scheduler.call_later(
                waiter.deadline.remaining_s(), waiter.expire
            )
            return
        text = (
            f'Cannot wait longer for amphora {waiter.amphora_id} to be {waiter.wanted} on '
            f'{self._backend!r}: {self._last_seen(waiter.amphora_id)}.'
        )
        if self._outage is not None:
            text += f' The backend does not answer now: {self._outage}'
        waiter.fail(OperationTimeout(text, backend=self._backend, amphora_id=waiter.amphora_id))

    def _last_seen(self, amphora_id: str) -> str:
        seen_status = self._table.latest(amphora_id)
        if seen_status is None:
            return 'no poll has returned its status'
        status, age_s = seen_status.status, self._clock.monotonic() - seen_status.at
        task = f' ({status.task_state})' if status.task_state else ''
        return f'it was {status.state}{task} when last polled, {age_s:.1f} s ago'

    def _cancel(self, waiter: Waiter[Any]) -> None:
        waiter.cancel(f'the watcher of {self._backend!r} is closed')

    # ---- the thread -----------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._await_turn():
                    self._thread = None
                    return
                due = self._interval.due
            self._tick(due)

    def _await_turn(self) -> bool:
        """Sleep until a poll is due; False if the thread is to end."""
        leave_at = None
        while not self._closed:
            now = self._clock.monotonic()
            if len(self._table):
                leave_at, until = None, self._interval.due
                if until <= now:
                    return True
            else:
                self._interval.stop_polling()
                until = leave_at = leave_at or now + LINGER_S
                if until <= now:
                    return False
            self._clock.wait(self._wake, until - now)
        return False

    def _tick(self, due: float) -> None:
        started, polled_at = self._clock.monotonic(), self._clock.time()
        wait = Wait()
        silence = self._scheduler.call_later(SILENT_S, functools.partial(self._silent, wait))
        try:
            with noted_in(wait):
                moved = self._notify(started)
        # Also exceptions other than Exception: a SystemExit from deep within a client
        # library would silently end all waits.
        except BaseException as exc:
            silence.cancel()
            self._poll_failed(exc)
        else:
            silence.cancel()
            if not self._poll.brief:
                self._table.record_full_poll(started, polled_at)
            self._answered(started, moved=moved)
        self._listener.ticked(self._backend, len(self._table), started - due)

    def _notify(self, started: float) -> bool:
        """Poll, and notify the waiters with changes; return True if there are any."""
        self._table.admit()
        moved = False
        for answer in self._poll.answers(self._table):
            for status in answer.statuses:
                for waiter in self._table.record_status(status, started):
                    moved = True
                    waiter.take_status(status)
            for amphora_id in answer.gone:
                for waiter in self._table.gone(amphora_id):
                    moved = True
                    waiter.mark_gone(self._clock.time())
        return moved

    def _answered(self, started: float, *, moved: bool) -> None:
        ended = self._clock.monotonic()
        if self._outage is not None:
            LOG.info('Watching %s resumed after %.1f s', self._backend, ended - self._outage_began)
            self._outage = None
        self._report(None)
        with self._lock:
            self._interval.answered(started, ended, moved=moved)

    def _poll_failed(self, error: BaseException) -> None:
        ended = self._clock.monotonic()
        expected = isinstance(error, AmphoraComputeError)
        if self._outage is None:
            self._outage_began = ended
            if expected:
                LOG.warning('Watching %s is interrupted: %s', self._backend, error)
        if not expected and type(error) is not type(self._outage):
            LOG.error('A defect interrupts watching %s', self._backend, exc_info=error)
        self._outage = error
        self._report(error)
        retry_after = error.retry_after if isinstance(error, AmphoraComputeError) else None
        with self._lock:
            self._interval.failed(
                ended, retry_after, requested=not isinstance(error, CircuitOpenError)
            )

    def _silent(self, wait: Wait) -> None:
        """Report that a poll has had no answer for a while; runs on the scheduler's thread."""
        self._report(no_answer_so_far(self._backend, 'Cannot poll amphorae', wait))

    def _report(self, outage: BaseException | None) -> None:
        """Tell everyone that waits of an outage, or of its end."""
        with self._lock:
            if outage is None and self._reported is None:
                return
            self._reported = outage
        if outage is not None:
            self._listener.delayed(self._backend, outage)
        for waiter in self._table.waiters():
            if waiter.on_outage is not None:
                waiter.on_outage(outage)


# Many waiters wait for the same few states, and share one set.
@functools.lru_cache(maxsize=64)
def _states(goal: frozenset[State]) -> frozenset[State]:
    try:
        states = frozenset(map(State, goal))
    except ValueError as exc:
        raise InvalidRequest(f'goal must be a collection of states: {exc}.') from exc
    if not states:
        raise InvalidRequest('goal must name at least one state.')
    return states
