"""Failures that come again: a new reason is logged, the same one is counted."""

from __future__ import annotations

import logging
import threading

from kiln.exceptions import KilnError


class Failures:
    """What fails now, and why; can be used by several threads at once."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()
        #: The last reason of each kind of work, and how often it has failed.
        self._known: dict[str, tuple[str, int]] = {}

    def failed(self, what: str, exc: Exception) -> None:
        """Log that something failed, unless it is known to fail for this reason."""
        reason = f'{type(exc).__name__}: {exc}'
        with self._lock:
            known, count = self._known.get(what, ('', 0))
            again = known == reason
            self._known[what] = (reason, count + 1)
        if again:
            return
        if isinstance(exc, KilnError):
            self._log.warning('%s: %s', what, exc)
        else:
            # A defect, of which the place has to be known.
            self._log.error('%s: %s', what, exc, exc_info=exc)

    def succeeded(self, what: str) -> None:
        """Log that something goes on which had failed."""
        with self._lock:
            _, count = self._known.pop(what, ('', 0))
        if count > 1:
            self._log.warning('No longer so, after %d times: %s', count, what)
