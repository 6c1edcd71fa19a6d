"""Virtual clock for tests: time passes only in :meth:`VirtualClock.advance`."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import threading
import time
from collections.abc import Callable

_PATIENCE_S = 0.05


@dataclasses.dataclass(slots=True)
class _Alarm:
    """The condition of a thread that waits for a point in virtual time; None once it woke."""

    condition: threading.Condition | None


class VirtualClock:
    """A clock whose time takes no real time and passes only in :meth:`advance`."""

    def __init__(self, epoch: float = 1_700_000_000.0) -> None:
        self._now = 0.0
        self._epoch = epoch
        self._lock = threading.Lock()
        self._alarms: list[tuple[float, int, _Alarm]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        """Return the virtual seconds since this clock was created."""
        return self._now

    def time(self) -> float:
        """Return virtual seconds since the epoch."""
        return self._epoch + self._now

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or back; monotonic time does not change."""
        self._epoch += seconds

    def sleep(self, seconds: float) -> None:
        """Block the calling thread until virtual time has passed."""
        condition = threading.Condition()
        due = self._now + seconds
        with condition:
            while self._now < due:
                self.wait(condition, due - self._now)

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        """Wait on a held condition; return False if the virtual timeout expired."""
        if timeout is None:
            return condition.wait()
        with self._lock:
            due = self._now + timeout
            if timeout <= 0:
                return False
            alarm = _Alarm(condition)
            heapq.heappush(self._alarms, (due, next(self._order), alarm))
        # advance() must hold the condition to notify it, and this thread holds the
        # condition until wait() releases it, so no notification is lost.
        condition.wait()
        alarm.condition = None
        return self._now < due

    @property
    def waiting(self) -> int:
        """Number of threads that wait for time to pass."""
        with self._lock:
            return sum(alarm.condition is not None for _, _, alarm in self._alarms)

    def next_alarm_s(self) -> float | None:
        """Return the seconds until a thread wakes, or None if no thread waits."""
        with self._lock:
            self._drop_silenced()
            return self._alarms[0][0] - self._now if self._alarms else None

    def advance(self, seconds: float) -> None:
        """Let virtual time pass, and wake each waiter when its time comes."""
        with self._lock:
            target = self._now + seconds
        while True:
            with self._lock:
                self._drop_silenced()
                if not self._alarms or self._alarms[0][0] > target:
                    self._now = max(self._now, target)
                    return
                due, _, alarm = heapq.heappop(self._alarms)
                self._now = max(self._now, due)
                condition = alarm.condition
            if condition is not None:
                with condition:
                    condition.notify_all()

    def run_until(
        self,
        done: Callable[[], bool],
        *,
        step_s: float = 1.0,
        real_timeout_s: float = 120.0,
    ) -> None:
        """Advance step by step until ``done()`` is true; fail after ``real_timeout_s``."""
        give_up = time.monotonic() + real_timeout_s
        while not done():
            if time.monotonic() > give_up:
                raise AssertionError(
                    f'not done after {self._now:.0f} virtual and {real_timeout_s:.0f} real seconds'
                )
            waiting = self.waiting
            self.advance(step_s)
            # Woken threads need real time to run. Most of them wait again
            # afterwards; some end, so the wait for them is short.
            patience = time.monotonic() + _PATIENCE_S
            time.sleep(0.0005)
            while self.waiting < waiting and time.monotonic() < patience:
                time.sleep(0.0005)

    def _drop_silenced(self) -> None:
        while self._alarms and self._alarms[0][2].condition is None:
            heapq.heappop(self._alarms)
