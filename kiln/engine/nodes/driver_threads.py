"""Threads for calls of cluster drivers, shared so that no cluster takes all of them."""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import threading
import time
from collections.abc import Callable

#: Threads of a conductor, and of one cluster; they are started when they are needed.
MOST = 64
#: Calls of the driver of one cluster that are under way at once.
CALLS_AT_ONCE = 8
#: Seconds after which a thread is passed on: quick calls need not wait for a turn each.
TURN_S = 0.02
#: Seconds that calls under way have to end when the process ends: an answer to a poll of a
#: node takes two at most.
CLOSE_S = 3.0


class LimitedThreads:
    """Runs functions on shared threads, a limited number at once; the others follow in order."""

    def __init__(
        self,
        run: Callable[[Callable[[], None]], object],
        most: int = CALLS_AT_ONCE,
        turn_s: float = TURN_S,
    ) -> None:
        self._run_shared = run
        self._most, self._turn_s = most, turn_s
        self._lock = threading.Lock()
        self._waiting: collections.deque[Callable[[], None]] = collections.deque()
        self._running = 0

    def run(self, function: Callable[[], None]) -> None:
        """Run a function, which must not raise, as soon as its turn comes; return at once."""
        with self._lock:
            if self._running >= self._most:
                self._waiting.append(function)
                return
            self._running += 1
        self._run_shared(functools.partial(self._work, function))

    def _work(self, function: Callable[[], None]) -> None:
        until = time.monotonic() + self._turn_s
        while True:
            function()
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                function = self._waiting.popleft()
            if time.monotonic() >= until:
                break
        # Behind the calls of other clusters, so that each has its turn.
        self._run_shared(functools.partial(self._work, function))


class DriverThreads:
    """The threads of one conductor."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(
            MOST, thread_name_prefix='kiln-cluster-driver'
        )
        self._open: set[concurrent.futures.Future[None]] = set()

    def run(self, function: Callable[[], None]) -> None:
        """Run a function as soon as a thread is free; return at once."""
        future = self._pool.submit(function)
        self._open.add(future)
        future.add_done_callback(self._open.discard)

    def close(self, wait_s: float = CLOSE_S) -> None:
        """Start nothing more, and wait for calls under way; one that hangs is left."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        concurrent.futures.wait(list(self._open), timeout=wait_s)
