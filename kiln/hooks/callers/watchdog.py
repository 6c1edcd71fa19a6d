"""Watchdog: calls functions in threads that are abandoned at the timeout."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any


class Watchdog:
    """Waits for functions up to a timeout.

    A thread cannot be killed, so a late function runs on. No other function is started
    under its key until it has returned.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[str] = set()

    def run(self, key: str, function: Callable[[], Any], timeout_s: float) -> Any:
        """Call a function; return what it returns, or raise what it raises.

        :raises TimeoutError: the function did not return in time, or an earlier function
            of the key is still running.
        """
        with self._lock:
            if key in self._running:
                raise TimeoutError('its previous call has not returned')
            self._running.add(key)
        outcome: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def work() -> None:
            try:
                outcome.set_result(function())
            # Everything is raised in the calling thread, even SystemExit.
            except BaseException as exc:
                outcome.set_exception(exc)
            finally:
                with self._lock:
                    self._running.discard(key)

        thread = threading.Thread(target=work, name=f'kiln-hook-{key}', daemon=True)
        thread.start()
        thread.join(timeout_s)
        if not outcome.done():
            raise TimeoutError(f'it did not return within {timeout_s:g} s')
        return outcome.result()
