"""Who may wait, who goes next, and who must leave a thread to others; pure."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Generic, TypeVar

from kiln.compute_drivers.calls import Traffic
from kiln.wrappers.operation import Priority

T = TypeVar('T')


class Admission(Generic[T]):
    """A bounded queue in front of a number of lanes. The caller holds a lock.

    A lane is a thread at work. No kind of traffic may take so many that
    another is left without one: builds that hang must not keep a delete, or a
    look, from its thread.
    """

    def __init__(self, *, lanes: int, max_waiting: int, wanted: Callable[[T], bool]) -> None:
        self._lanes = lanes
        self._max_waiting = max_waiting
        # Whether an item still is what it was put here for.
        self._wanted = wanted
        self._queues: dict[Traffic, list[tuple[int, int, T]]] = {t: [] for t in Traffic}
        self._running = dict.fromkeys(Traffic, 0)
        self._held_until = dict.fromkeys(Traffic, 0.0)
        self._order = itertools.count()
        self.waiting = 0
        self.running = 0
        # Builds and changes are slow, reads are many: neither of the slow
        # ones gets more than half, even where nobody else asks.
        half = max(1, lanes // 2)
        self._shares = {Traffic.READ: lanes, Traffic.BUILD: half, Traffic.CHANGE: half}

    @property
    def full(self) -> bool:
        """Whether one more must be rejected."""
        return self.waiting >= self._max_waiting

    def put(self, traffic: Traffic, priority: Priority, item: T) -> None:
        """Add an item behind those of its priority."""
        heapq.heappush(self._queues[traffic], (priority, next(self._order), item))
        self.waiting += 1

    def withdraw(self) -> None:
        """Count one less: an item in the queue is wanted no more."""
        self.waiting -= 1

    def take(self, now: float) -> tuple[Traffic, T] | None:
        """Return the item to go next and give it a lane, or None if none may."""
        best: Traffic | None = None
        for traffic, queue in self._queues.items():
            while queue and not self._wanted(queue[0][2]):
                heapq.heappop(queue)
            if not queue or not self._may_run(traffic, now):
                continue
            if best is None or queue[0][:2] < self._queues[best][0][:2]:
                best = traffic
        if best is None:
            return None
        item = heapq.heappop(self._queues[best])[2]
        self.waiting -= 1
        self.running += 1
        self._running[best] += 1
        return best, item

    def give_back(self, traffic: Traffic) -> None:
        """Free the lane that an item had."""
        self.running -= 1
        self._running[traffic] -= 1

    def hold(self, traffic: Traffic, until: float) -> None:
        """Let none of a kind go before a moment."""
        self._held_until[traffic] = max(self._held_until[traffic], until)

    def ready(self, now: float) -> bool:
        """Whether some item would get a lane now."""
        return self.waiting > 0 and any(
            queue and self._may_run(traffic, now) for traffic, queue in self._queues.items()
        )

    def _may_run(self, traffic: Traffic, now: float) -> bool:
        if self._held_until[traffic] > now or self._running[traffic] >= self._shares[traffic]:
            return False
        free = self._lanes - self.running
        if self._running[traffic] == 0:
            return free > 0
        others_without = sum(
            count == 0 for other, count in self._running.items() if other is not traffic
        )
        return free > others_without
