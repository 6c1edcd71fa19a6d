"""Scheduler: one thread that calls functions on time, for deadlines and retries."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable

from kiln.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)


class Appointment:
    """A function to be called later, unless it is cancelled first."""

    __slots__ = ('_scheduler', 'function')

    def __init__(self, function: Callable[[], object], scheduler: Scheduler) -> None:
        self.function: Callable[[], object] | None = function
        self._scheduler = scheduler

    def cancel(self) -> None:
        """Prevent the call; no effect if it was already made."""
        if self.function is not None:
            self.function = None
            self._scheduler.count_cancelled()


class Scheduler:
    """Calls functions at their time, in order, on one daemon thread.

    The functions must be quick, because they are called one after another. The thread
    starts with the first appointment and ends with :meth:`close`.
    """

    def __init__(self, *, name: str = 'kiln', clock: Clock = SYSTEM_CLOCK) -> None:
        self._name = name
        self._clock = clock
        # Entered by itself, never through the condition: a signal handler that raises
        # within code of Condition would leave it held.
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._queue: list[tuple[float, int, Appointment]] = []
        self._order = itertools.count()
        self._thread: threading.Thread | None = None
        self._cancelled = 0
        self._closed = False

    def call_later(self, delay_s: float, function: Callable[[], object]) -> Appointment:
        """Call a function after that many seconds."""
        appointment = Appointment(function, self)
        due = self._clock.monotonic() + max(0.0, delay_s)
        with self._lock:
            if self._closed:
                return appointment
            entry = (due, next(self._order), appointment)
            heapq.heappush(self._queue, entry)
            if self._thread is None:
                thread = threading.Thread(
                    target=self._run, name=f'{self._name}-scheduler', daemon=True
                )
                # Known once it runs: a signal handler can raise in the middle of a start.
                thread.start()
                self._thread = thread
            elif self._queue[0] is entry:
                # Only an appointment earlier than all others shortens the sleep.
                self._wake.notify()
        return appointment

    @property
    def started(self) -> bool:
        """True if there ever was an appointment."""
        return self._thread is not None

    def count_cancelled(self) -> None:
        """Drop cancelled appointments once they are the majority."""
        # Most deadlines are cancelled long before their time; kept until then, those of
        # an hour would fill the memory.
        with self._lock:
            self._cancelled += 1
            if self._cancelled > 1000 and self._cancelled * 2 > len(self._queue):
                self._queue = [entry for entry in self._queue if entry[2].function is not None]
                heapq.heapify(self._queue)
                self._cancelled = 0

    def close(self) -> None:
        """Drop all appointments and end the thread; safe to repeat."""
        with self._lock:
            self._closed = True
            self._queue.clear()
            self._wake.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def disown(self) -> None:
        """Drop all appointments in the child of a fork: they are the parent's."""
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._queue, self._thread, self._closed = [], None, True

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._closed and not self._due():
                    delay = None
                    if self._queue:
                        delay = self._queue[0][0] - self._clock.monotonic()
                    self._clock.wait(self._wake, delay)
                if self._closed:
                    return
                appointment = heapq.heappop(self._queue)[2]
                # Taken: cancelling it now has no effect.
                function, appointment.function = appointment.function, None
            if function is None:
                continue
            try:
                function()
            # A failing function must not end the deadlines of all others.
            except Exception:
                LOG.exception('A scheduled function of %s failed', self._name)

    def _due(self) -> bool:
        return bool(self._queue) and self._queue[0][0] <= self._clock.monotonic()
