"""Threads that parties share, so that none of them takes all."""

from __future__ import annotations

import collections
import dataclasses
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

from kiln.fairness.turns import FairTurns, on_behalf_of

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class _Party:
    waiting: collections.deque[Callable[[], object]] = dataclasses.field(
        default_factory=collections.deque
    )
    running: int = 0
    #: True while it has a place in the queue.
    placed: bool = False


class FairThreads:
    """Runs functions of many parties on a number of threads, and of one party on fewer.

    The functions of one party begin in order. The next function is one of the party that has
    used the threads least. Threads are started when they are needed, and never delay the end
    of the process.
    """

    def __init__(
        self,
        most: int,
        *,
        each: int,
        name: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._each, self._name = most, each, name
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._wanted = threading.Condition(self._lock)
        self._ended = threading.Condition(self._lock)
        self._turns = FairTurns()
        self._parties: dict[str, _Party] = {}
        self._queue: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._threads = self._idle = self._running = 0
        self._closed = False

    def run(self, party: str, function: Callable[[], object]) -> None:
        """Run a function as soon as its turn comes; return at once.

        After closing it is never run.
        """
        with self._lock:
            if self._closed:
                return
            mine = self._parties.setdefault(party, _Party())
            mine.waiting.append(function)
            self._place(party, mine)

    def close(self) -> None:
        """Start nothing more; functions under way continue. Safe to repeat."""
        with self._lock:
            self._closed = True
            self._queue.clear()
            self._parties.clear()
            self._wanted.notify_all()

    def join(self, wait_s: float) -> bool:
        """Wait after closing for functions under way; return False if some are left."""
        # The system's time, as in all that ends a process.
        deadline = time.monotonic() + wait_s
        with self._lock:
            while self._running and (left_s := deadline - time.monotonic()) > 0:
                self._ended.wait(left_s)
            return not self._running

    def _place(self, party: str, mine: _Party) -> None:
        if mine.placed or not mine.waiting or mine.running >= self._each:
            return
        mine.placed = True
        heapq.heappush(self._queue, (self._turns.place(party), next(self._order), party))
        # Threads that were notified, and have not begun, are among the idle ones.
        if self._idle >= len(self._queue):
            self._wanted.notify()
        elif self._threads < self._most:
            self._start()

    def _start(self) -> None:
        name = f'{self._name}-{self._threads + 1}'
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        # The system has no more of them; those that run take what waits, one after another.
        except RuntimeError:
            LOG.exception('Cannot start thread %s', name)
        else:
            self._threads += 1

    def _work(self) -> None:
        while True:
            with self._lock:
                taken = self._take()
            if taken is None:
                return
            party, function = taken
            began = self._monotonic()
            try:
                with on_behalf_of(party):
                    function()
            # Includes SystemExit, which must not end the thread.
            except BaseException:
                LOG.exception('Function %r of %s failed', function, party)
            del taken, function
            with self._lock:
                self._end(party, self._monotonic() - began)

    def _take(self) -> tuple[str, Callable[[], object]] | None:
        """Wait for the next function; return None after closing."""
        while not self._queue and not self._closed:
            self._idle += 1
            self._wanted.wait()
            self._idle -= 1
        if self._closed:
            return None
        place, _, party = heapq.heappop(self._queue)
        self._turns.serve(place)
        mine = self._parties[party]
        mine.placed = False
        function = mine.waiting.popleft()
        mine.running += 1
        self._running += 1
        self._place(party, mine)
        return party, function

    def _end(self, party: str, used_s: float) -> None:
        self._running -= 1
        self._turns.use(party, used_s)
        if self._closed:
            self._ended.notify_all()
            return
        mine = self._parties[party]
        mine.running -= 1
        if mine.waiting:
            self._place(party, mine)
        elif not mine.running:
            del self._parties[party]
