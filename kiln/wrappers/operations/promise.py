"""Promise: a lightweight future to await, to block on, or to give callbacks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, Generic, Self, TypeVar

from kiln.compute_drivers import validation

LOG = logging.getLogger(__name__)

T = TypeVar('T')

_PENDING: Any = object()
#: Seconds until the main thread notices a signal that another thread received.
_LOOK_UP_S = 0.5


class Promise(Generic[T]):
    """A minimal future, because there can be a hundred thousand of them.

    Thread-safe. ``result()`` blocks, ``add_done_callback`` does not, and a coroutine can
    await it on any loop; cancelling the waiting task does not cancel the promise, because
    others might wait for it too.

    The future of the standard library is fourteen objects for the garbage collector; this
    is three.
    """

    __slots__ = ('_callbacks', '_error', '_lock', '_value', '_waiter')

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiter: _Waiter | None = None
        self._callbacks: list[Callable[[Any], object]] | None = None
        self._value: Any = _PENDING
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Return True if it has an outcome."""
        return self._value is not _PENDING

    def result(self, timeout: float | None = None) -> T:
        """Return the result, or raise the error.

        :raises TimeoutError: not done after ``timeout`` seconds.
        """
        if (error := self.exception(timeout)) is not None:
            raise error
        value: T = self._value
        return value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error, or None after a success.

        :raises TimeoutError: not done after ``timeout`` seconds.
        :raises InvalidRequest: ``timeout`` is not a number of seconds.
        """
        if timeout is not None:
            timeout = validation.check_wait('timeout', timeout)
        if not self.done():
            with self._lock:
                if not self.done() and self._waiter is None:
                    self._waiter = _Waiter()
                waiter = self._waiter
            if waiter is not None and not _wait(waiter, self.done, timeout):
                raise TimeoutError(f'{self!r} is not done yet.')
        return self._error

    def add_done_callback(self, function: Callable[[Self], object]) -> None:
        """Call a function with this promise once it is done, or now if it is."""
        validation.check_callable('function', function)
        self._then(function)

    def __await__(self) -> Generator[Any, None, T]:
        # A coroutine has a loop already, so the import is free here, and all other callers
        # save a thirtieth of a second.
        import asyncio

        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        def done(_: Promise[T]) -> None:
            try:
                loop.call_soon_threadsafe(wake)
            except RuntimeError:
                # The loop was closed, so nothing waits there.
                return

        self._then(done)
        try:
            yield from woken.__await__()
        finally:
            # The callback of a task that gave up waiting must not stay here for hours.
            self._forget(done)
        return self.result()

    # ---- for subclasses, which set the outcome ------------------------------

    def _then(self, function: Callable[[Self], object]) -> None:
        """Call a quick internal function on the thread that sets the outcome, or now."""
        with self._lock:
            if not self.done():
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(function)
                return
        self._call_back(function)

    def _settle(self, value: Any, error: BaseException | None) -> bool:
        """Set the outcome; return False if there was one already."""
        with self._lock:
            if self.done():
                return False
            self._error, self._value = error, value
        self._notify_all()
        return True

    def _notify_all(self) -> None:
        """Wake all waiters and call all callbacks, once, as soon as it is done."""
        if self._waiter is not None:
            self._waiter.wake()
        callbacks, self._callbacks = self._callbacks, None
        for function in callbacks or ():
            self._call_back(function)

    def _forget(self, function: Callable[[Any], object]) -> None:
        with self._lock:
            if self._callbacks and function in self._callbacks:
                self._callbacks.remove(function)

    def _call_back(self, function: Callable[[Any], object]) -> None:
        try:
            function(self)
        # A caller's callback must not end a thread that works for others.
        except Exception:
            LOG.exception('A callback of %r failed', self)


class _Waiter:
    """Lets threads wait until a promise is done.

    ``threading.Event`` would do, but it is Python code around a lock: where a signal handler
    raises in the middle of it, as for Ctrl-C, the lock stays held. What wakes the waiters
    would then hang. A lock that is entered by itself is let go whatever is raised.
    """

    __slots__ = ('_changed', '_lock')

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)

    def wait(self, done: Callable[[], bool], timeout: float | None) -> bool:
        """Wait; return True once it is done."""
        with self._lock:
            return done() or self._changed.wait(timeout) or done()

    def wake(self) -> None:
        """Wake all that wait."""
        with self._lock:
            self._changed.notify_all()


def _wait(waiter: _Waiter, done: Callable[[], bool], timeout: float | None) -> bool:
    """Wait for a promise; return True once it is done."""
    if threading.current_thread() is not threading.main_thread():
        return waiter.wait(done, timeout)
    # The kernel delivers a signal to any thread, and Python runs its handler only on the
    # main thread, which the signal does not wake.
    ends_at = None if timeout is None else time.monotonic() + timeout
    while True:
        left_s = _LOOK_UP_S if ends_at is None else min(_LOOK_UP_S, ends_at - time.monotonic())
        if waiter.wait(done, max(0.0, left_s)):
            return True
        if ends_at is not None and time.monotonic() >= ends_at:
            return False
