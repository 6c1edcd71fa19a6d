"""Calls that may take for ever, in a thread that is left to itself when they are too late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Watchdog:
    """Waits for functions no longer than it is told.

    A thread cannot be ended from outside, so what is too late runs on; under the
    same key nothing is begun until it has returned.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[str] = set()

    def run(self, key: str, function: Callable[[], Any], timeout_s: float) -> Any:
        """Return what a function returns, or raise what it raises.

        :raises TimeoutError: it has not returned in time, or an earlier one of the
            key has not yet.
        """
        with self._lock:
            if key in self._running:
                raise TimeoutError('its former call has not returned yet')
            self._running.add(key)
        outcome: list[tuple[Any, BaseException | None]] = []

        def work() -> None:
            try:
                outcome.append((function(), None))
            # All that it raises is for the caller, be it SystemExit.
            except BaseException as exc:
                outcome.append((None, exc))
            finally:
                with self._lock:
                    self._running.discard(key)

        thread = threading.Thread(target=work, name=f'kiln-hook-{key}', daemon=True)
        thread.start()
        thread.join(timeout_s)
        if not outcome:
            raise TimeoutError(f'it has not returned within {timeout_s:g} s')
        value, error = outcome[0]
        if error is not None:
            raise error
        return value
