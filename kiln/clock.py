"""Time as a thing that is handed in, and deadlines made of it."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol


class Clock(Protocol):
    """What kiln needs of time; ``kiln.testing.VirtualClock`` is the other one."""

    def monotonic(self) -> float:
        """Return seconds that never step back; the origin means nothing."""

    def time(self) -> float:
        """Return seconds since the epoch, as all processes of a host see them."""

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        """Wait on a held condition; return False where the time ran out."""


_LONGEST_S = threading.TIMEOUT_MAX / 2


class SystemClock:
    """The clock of the machine."""

    def __init__(self) -> None:
        # Bound once: they are on the path of every guarded call.
        self.monotonic: Callable[[], float] = time.monotonic
        self.time: Callable[[], float] = time.time
        self.sleep: Callable[[float], None] = time.sleep

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        """Wait on a held condition; return False where the time ran out."""
        # The system refuses to wait for ever by number, be it infinity or just
        # large; and a thread that keeps the appointments must not die of it.
        return condition.wait(timeout if timeout is None else min(timeout, _LONGEST_S))


SYSTEM_CLOCK: Clock = SystemClock()


class ClockEvent:
    """A ``threading.Event`` whose waiters go by a clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._set = False

    def set(self) -> None:
        """Wake all waiters, also those to come."""
        with self._lock:
            self._set = True
            self._changed.notify_all()

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._set

    def wait(self, timeout: float) -> bool:
        """Block until it is set or the time is over; return whether it is set."""
        give_up = self._clock.monotonic() + timeout
        with self._lock:
            # Whoever waits by a clock may be woken by others before its time.
            while not self._set and (left_s := give_up - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left_s)
            return self._set


@dataclasses.dataclass(frozen=True, slots=True)
class Deadline:
    """One moment that bounds queue, retries, call and wait together."""

    at: float
    clock: Clock = dataclasses.field(default=SYSTEM_CLOCK, compare=False, repr=False)

    @classmethod
    def after(cls, seconds: float, clock: Clock = SYSTEM_CLOCK) -> Deadline:
        """Return the deadline that many seconds from now."""
        return cls(clock.monotonic() + seconds, clock)

    def remaining_s(self) -> float:
        """Return the seconds left; negative once it has passed."""
        return self.at - self.clock.monotonic()

    @property
    def passed(self) -> bool:
        """Whether there is no time left."""
        return self.remaining_s() <= 0


_current: contextvars.ContextVar[Deadline | None] = contextvars.ContextVar(
    'kiln_deadline', default=None
)


def current_deadline() -> Deadline | None:
    """Return the deadline of the call being made, for a driver's own timeouts."""
    return _current.get()


@contextlib.contextmanager
def deadline_scope(deadline: Deadline | None) -> Iterator[None]:
    """Bound everything called inside; the nearer of two deadlines wins."""
    outer = _current.get()
    if deadline is None or (outer is not None and outer.at <= deadline.at):
        yield
        return
    reset = _current.set(deadline)
    try:
        yield
    finally:
        _current.reset(reset)
