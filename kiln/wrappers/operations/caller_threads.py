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
#: Seconds without progress after which another thread helps.
STALL_S = 0.005


class CallerThreads:
    """Runs callers' functions in order on a few daemon threads.

    One thread runs all functions that return quickly: a switch between threads costs more
    than most of them. Another helps when a function blocks for ``stall_s``, and so on, up to
    ``size`` threads. None of kiln's own code runs here, so code that blocks delays only code
    of the same kind, of the same backend.
    """

    def __init__(self, name: str, size: int, *, stall_s: float = STALL_S) -> None:
        self.size = size
        self._stall_s = stall_s
        self._name = name
        self._started = 0
        self._closed = False
        self._forget_all()

    def _forget_all(self) -> None:
        # Entered by itself, never through a condition: a signal handler that raises
        # within code of Condition would leave it held.
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._pause = threading.Condition(self._lock)
        self._waiting: collections.deque[Callable[[], object]] = collections.deque()
        self._threads: set[threading.Thread] = set()
        # Threads by what they do. A called thread is on its way, or stands by in case that
        # those at work make no progress; an invited one is called, and still asleep.
        self._idle = self._invited = self._called = self._working = 0
        #: The number of functions that were begun.
        self._begun = 0

    def submit(self, function: Callable[[], object]) -> None:
        """Run a function; after :meth:`close` too, because its caller waits for it."""
        with self._lock:
            self._waiting.append(function)
            self._call()

    def close(self, wait_s: float) -> None:
        """End idle threads now and busy threads when they are idle; wait that long."""
        deadline = Deadline.after(wait_s)
        with self._lock:
            self._closed = True
            self._wake.notify_all()
            self._pause.notify_all()
            # A callback that calls close() would wait for its own end.
            if threading.current_thread() in self._threads:
                return
            while self._threads and not deadline.passed:
                self._wake.wait(max(0.0, deadline.remaining_s()))

    def disown(self) -> None:
        """Forget threads and waiting functions: they belong to the parent process."""
        self._forget_all()
        self._closed = True

    def _call(self) -> None:
        """Call a thread to the functions that wait, unless one is called already."""
        if self._called or not self._waiting:
            return
        if self._idle:
            self._idle -= 1
            self._invited += 1
            self._called += 1
            self._wake.notify()
        elif len(self._threads) < self.size:
            self._start()

    def _start(self) -> None:
        self._started += 1
        thread = threading.Thread(
            target=self._run, name=f'{self._name}-{self._started}', daemon=True
        )
        try:
            self._take_in(thread)
            thread.start()
        # RuntimeError: no thread can be started, and an existing thread runs the function, or
        # the next one. Anything else: a signal handler raised, and the thread might run.
        except BaseException as exc:
            if not thread.is_alive() and thread in self._threads:
                self._threads.remove(thread)
                self._called -= 1
            if not isinstance(exc, RuntimeError):
                raise
            LOG.exception('Cannot start thread %s', thread.name)

    def _take_in(self, thread: threading.Thread) -> None:
        self._called += thread not in self._threads
        self._threads.add(thread)

    def _run(self) -> None:
        with self._lock:
            self._take_in(threading.current_thread())
        worked = False
        while (function := self._next(worked)) is not None:
            try:
                function()
            # Includes SystemExit, which must not end this thread.
            except BaseException:
                LOG.exception('Function %r, passed in by the caller of kiln, failed', function)
            del function
            worked = True

    def _next(self, worked: bool) -> Callable[[], object] | None:
        """Return the next function for a thread, or None if the thread is to end."""
        with self._lock:
            self._working -= worked
            while not (worked and self._waiting) and not self._is_needed():
                self._called -= not worked
                if not self._rest():
                    return None
                worked = False
            self._called -= not worked
            self._working += 1
            self._begun += 1
            function = self._waiting.popleft()
            self._call()
            return function

    def _is_needed(self) -> bool:
        """Return True if a called thread has to work; stand by while others make progress."""
        begun = -1
        while self._waiting:
            if not self._stall_s or not self._working or self._begun == begun:
                return True
            begun = self._begun
            self._pause.wait(self._stall_s)
        return False

    def _rest(self) -> bool:
        """Sleep; return True once it is called again, False if the thread is to end."""
        self._idle += 1
        self._wake.wait_for(lambda: self._invited or self._closed, LINGER_S)
        if self._invited:
            self._invited -= 1
            return True
        self._idle -= 1
        self._threads.discard(threading.current_thread())
        if self._closed:
            self._wake.notify_all()
        return False


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
