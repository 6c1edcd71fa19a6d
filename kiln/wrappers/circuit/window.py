"""Sliding window of recent calls, counted in fixed memory."""

from __future__ import annotations

import math

#: More slots make the window slide more smoothly and cost more memory.
SLOTS = 12


class OutcomeWindow:
    """Counts the calls, failures and slow calls of the last seconds.

    Time is divided into slots, and a slot is forgotten as a whole: the window covers
    between 11/12 of its length and all of it, in constant time and memory for any number
    of calls. Not thread-safe: the circuit counts under its own lock.
    """

    __slots__ = ('_calls', '_failures', '_slot', '_slot_s', '_slow', 'calls', 'failures', 'slow')

    def __init__(self, window_s: float) -> None:
        self._slot_s = window_s / SLOTS
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._slot = 0
        self._calls = [0] * SLOTS
        self._failures = [0] * SLOTS
        self._slow = [0] * SLOTS
        self.calls = self.failures = self.slow = 0

    def record(self, now: float, *, failed: bool, slow: bool) -> None:
        """Count one call that ended now."""
        self.slide(now)
        # A thread can read the clock just before another thread advances the window; its
        # call still belongs to the newest slot.
        index = self._slot % SLOTS
        self._calls[index] += 1
        self.calls += 1
        if failed:
            self._failures[index] += 1
            self.failures += 1
        if slow:
            self._slow[index] += 1
            self.slow += 1

    def slide(self, now: float) -> None:
        """Forget outdated slots; :meth:`record` calls it, too."""
        slot = math.floor(now / self._slot_s)
        if slot <= self._slot:
            return
        for passed in range(max(self._slot, slot - SLOTS) + 1, slot + 1):
            index = passed % SLOTS
            self.calls -= self._calls[index]
            self.failures -= self._failures[index]
            self.slow -= self._slow[index]
            self._calls[index] = self._failures[index] = self._slow[index] = 0
        self._slot = slot
