"""Clocks and deadlines: time as an injected dependency."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import datetime
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol


class Clock(Protocol):
    """The clock interface of kiln; ``kiln.testing.VirtualClock`` implements it for tests."""

    def monotonic(self) -> float:
        """Return seconds that never decrease; their origin is arbitrary."""

    def time(self) -> float:
        """Return seconds since the epoch, the same in all processes of a host."""

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        """Wait on a held condition; return False if the timeout expired."""


_LONGEST_S = threading.TIMEOUT_MAX / 2


class SystemClock:
    """The clock of the operating system."""

    def __init__(self) -> None:
        # Bound once, because every guarded call uses them.
        self.monotonic: Callable[[], float] = time.monotonic
        self.time: Callable[[], float] = time.time
        self.sleep: Callable[[float], None] = time.sleep

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        """Wait on a held condition; return False if the timeout expired."""
        # The system refuses infinite and very large timeouts, and the scheduler thread
        # must not die of that error.
        return condition.wait(timeout if timeout is None else min(timeout, _LONGEST_S))


SYSTEM_CLOCK: Clock = SystemClock()


def clock_time(at: float) -> str:
    """Return the UTC time of day for people, to the second."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime('%H:%M:%SZ')


class ClockEvent:
    """A ``threading.Event`` whose waits follow a clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Entered by itself, never through the condition: a signal handler that raises
        # within code of Condition would leave it held.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._set = False

    def set(self) -> None:
        """Wake all waiters, and let later waits return at once."""
        with self._lock:
            self._set = True
            self._changed.notify_all()

    def is_set(self) -> bool:
        """Return True if the event was set."""
        return self._set

    def wait(self, timeout: float) -> bool:
        """Block until the event is set or the timeout expires; return True if it is set."""
        give_up = self._clock.monotonic() + timeout
        with self._lock:
            # A wait by a clock can be woken before its timeout.
            while not self._set and (left_s := give_up - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left_s)
            return self._set


@dataclasses.dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time that bounds queue, retries, call and wait together."""

    at: float
    clock: Clock = dataclasses.field(default=SYSTEM_CLOCK, compare=False, repr=False)

    @classmethod
    def after(cls, seconds: float, clock: Clock = SYSTEM_CLOCK) -> Deadline:
        """Return the deadline that many seconds from now."""
        return cls(clock.monotonic() + seconds, clock)

    def remaining_s(self) -> float:
        """Return the seconds left; negative after the deadline has passed."""
        return self.at - self.clock.monotonic()

    @property
    def passed(self) -> bool:
        """True if no time is left."""
        return self.remaining_s() <= 0


_current: contextvars.ContextVar[Deadline | None] = contextvars.ContextVar(
    'kiln_deadline', default=None
)


def current_deadline() -> Deadline | None:
    """Return the deadline of the current call, for a driver's own timeouts."""
    return _current.get()


@contextlib.contextmanager
def deadline_scope(deadline: Deadline | None) -> Iterator[None]:
    """Bound every call inside the block; the earlier of two nested deadlines applies."""
    outer = _current.get()
    if deadline is None or (outer is not None and outer.at <= deadline.at):
        yield
        return
    reset = _current.set(deadline)
    try:
        yield
    finally:
        _current.reset(reset)
