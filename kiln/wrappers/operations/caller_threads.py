"""Threads for callers' code: callbacks and probes, which can block."""

from __future__ import annotations

import collections
import logging
import threading
from collections.abc import Callable
from typing import Any

from kiln.clock import Deadline

LOG = logging.getLogger(__name__)

#: Seconds until an idle thread ends.
LINGER_S = 5.0


class CallerThreads:
    """Runs callers' functions in order on a few daemon threads.

    A thread is started when a function finds no idle thread, up to ``size`` threads; then
    the function waits for a thread. None of kiln's own code runs here, so code that blocks
    delays only code of the same kind, of the same backend.
    """

    def __init__(self, name: str, size: int) -> None:
        self.size = size
        self._name = name
        # Entered by itself, never through the condition: a signal handler that raises
        # within code of Condition would leave it held.
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._waiting: collections.deque[Callable[[], object]] = collections.deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._started = 0
        self._closed = False

    def submit(self, function: Callable[[], object]) -> None:
        """Run a function; after :meth:`close` too, because its caller waits for it."""
        with self._lock:
            self._waiting.append(function)
            if self._idle >= len(self._waiting):
                self._wake.notify()
            elif len(self._threads) < self.size:
                self._start()

    def close(self, wait_s: float) -> None:
        """End idle threads now and busy threads when they are idle; wait that long."""
        deadline = Deadline.after(wait_s)
        with self._lock:
            self._closed = True
            self._wake.notify_all()
            # A callback that calls close() would wait for its own end.
            if threading.current_thread() in self._threads:
                return
            while self._threads and not deadline.passed:
                self._wake.wait(max(0.0, deadline.remaining_s()))

    def disown(self) -> None:
        """Forget threads and waiting functions: they belong to the parent process."""
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._waiting = collections.deque()
        self._threads, self._idle, self._closed = set(), 0, True

    def _start(self) -> None:
        self._started += 1
        thread = threading.Thread(
            target=self._run, name=f'{self._name}-{self._started}', daemon=True
        )
        self._threads.add(thread)
        try:
            thread.start()
        # No thread can be started: an existing thread runs the function, or the next one.
        except RuntimeError:
            self._threads.discard(thread)
            LOG.exception('Cannot start thread %s', thread.name)

    def _run(self) -> None:
        while (function := self._next()) is not None:
            try:
                function()
            # Includes SystemExit, which must not end this thread.
            except BaseException:
                LOG.exception('Function %r, passed in by the caller of kiln, failed', function)
            del function

    def _next(self) -> Callable[[], object] | None:
        """Return the next function, or None if the thread is to end."""
        with self._lock:
            if not self._waiting and not self._closed:
                self._idle += 1
                self._wake.wait(LINGER_S)
                self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._threads.discard(threading.current_thread())
            if self._closed:
                self._wake.notify_all()
            return None


class CallbackLine:
    """The callbacks of one operation, called one after another, in order."""

    __slots__ = ('_at_work', '_lock', '_threads', '_waiting')

    def __init__(self, threads: CallerThreads) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: collections.deque[tuple[Callable[[Any], object], Any]] = collections.deque()
        self._at_work = False

    def call(self, function: Callable[[Any], object], argument: Any) -> None:
        """Call a function after the functions added before it."""
        with self._lock:
            self._waiting.append((function, argument))
            if self._at_work:
                return
            self._at_work = True
        self._threads.submit(self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._at_work = False
                    return
                function, argument = self._waiting.popleft()
            call_guarded(function, argument)


def call_guarded(function: Callable[[Any], object], argument: Any) -> None:
    """Call a caller's callback; log any exception as the caller's error."""
    try:
        function(argument)
    # Includes SystemExit: in a callback it ends neither the thread nor the process.
    except BaseException:
        LOG.exception('A callback passed in by the caller failed: %r, called with %r',
                      function, argument)  # fmt: skip
