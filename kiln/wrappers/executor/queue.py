"""Queues of the executor: by priority and kind of traffic, and by build key; pure."""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from kiln.compute_drivers.calls import Traffic
from kiln.fairness.turns import NOBODY, FairTurns
from kiln.wrappers.operations.operation import Priority

T = TypeVar('T')


#: The place of an item among those of its priority: by turns of parties, then by arrival.
Place = tuple[float, int]


class TrafficQueue(Generic[T]):
    """A queue in front of a number of threads. The caller holds a lock.

    No kind of traffic can take so many threads that another is left without one: builds
    that hang must not block a delete or a read. Parties take turns, however many items one
    of them has; the items of a party keep their order.
    """

    def __init__(
        self, *, threads: int, shares: Mapping[Traffic, int], wanted: Callable[[T], bool]
    ) -> None:
        self._threads = threads
        self._shares = shares
        # Returns True while an item still waits here.
        self._wanted = wanted
        self._queues: dict[Traffic, list[tuple[int, Place, T]]] = {t: [] for t in Traffic}
        self._running = dict.fromkeys(Traffic, 0)
        self._held_until = dict.fromkeys(Traffic, 0.0)
        self._order = itertools.count()
        self._turns = FairTurns()
        self._withdrawn = 0
        self.waiting = 0
        self.running = 0

    def put(
        self,
        traffic: Traffic,
        priority: Priority,
        item: T,
        place: Place | None = None,
        *,
        party: str = NOBODY,
    ) -> Place:
        """Add an item behind the others of its party and priority; return its place.

        With its earlier place it returns there.
        """
        # An item that cannot be ordered is refused here: in the queue it would fail each
        # thread that takes the next item, for ever.
        rank = operator.index(priority)
        if place is None:
            place = self._turns.place(party), next(self._order)
            self._turns.use(party, 1)
        heapq.heappush(self._queues[traffic], (rank, place, item))
        self.waiting += 1
        return place

    def withdraw(self) -> None:
        """Count one item less, because an item in the queue is no longer wanted."""
        self.waiting -= 1
        self._withdrawn += 1
        # If the head of a queue cannot run, the items behind it are not taken, and
        # cancelled items among them would stay as long.
        if self._withdrawn > 1000 and self._withdrawn > self.waiting:
            self._withdrawn = 0
            for traffic, queue in self._queues.items():
                self._queues[traffic] = [entry for entry in queue if self._wanted(entry[2])]
                heapq.heapify(self._queues[traffic])

    def take(self, now: float) -> tuple[Traffic, T] | None:
        """Return the next item, and assign it a thread; None if no item can run."""
        if not self.waiting or self.running >= self._threads:
            return None
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
        _, place, item = heapq.heappop(self._queues[best])
        self._turns.serve(place[0])
        self.waiting -= 1
        self.running += 1
        self._running[best] += 1
        return best, item

    def give_back(self, traffic: Traffic) -> None:
        """Release the thread of an item."""
        self.running -= 1
        self._running[traffic] -= 1

    def hold(self, traffic: Traffic, until: float) -> None:
        """Let no item of a kind run before a time of the clock."""
        self._held_until[traffic] = max(self._held_until[traffic], until)

    def _may_run(self, traffic: Traffic, now: float) -> bool:
        if self._held_until[traffic] > now or self._running[traffic] >= self._shares[traffic]:
            return False
        free = self._threads - self.running
        if self._running[traffic] == 0:
            return free > 0
        others_without = sum(
            count == 0 for other, count in self._running.items() if other is not traffic
        )
        return free > others_without


class PerKeyQueue(Generic[T]):
    """A queue for each key, whose first item runs. The caller holds a lock.

    Two concurrent builds of one key could make two machines, and a concurrent removal
    could delete what a build just made. So they run one after another.
    """

    def __init__(self) -> None:
        self._lines: dict[str, list[T]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def join(self, key: str, item: T) -> bool:
        """Add an item; return True if it can run at once."""
        line = self._lines.setdefault(key, [])
        line.append(item)
        return len(line) == 1

    def hand_over(self, key: str, item: T, heir: T) -> bool:
        """Replace an item in its place by another; return True if that can run at once."""
        line = self._lines[key]
        place = line.index(item)
        line[place] = heir
        return place == 0

    def leave(self, key: str, item: T) -> T | None:
        """Remove an item; return the item that can run because of that."""
        line = self._lines[key]
        place = line.index(item)
        del line[place]
        if not line:
            del self._lines[key]
            return None
        return line[0] if place == 0 else None
