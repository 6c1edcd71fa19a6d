"""Failures that come again: a new reason is logged, the same one is counted."""

from __future__ import annotations

import logging
import threading

from kiln.clusters.exceptions import StoreError
from kiln.exceptions import KilnError

LOG = logging.getLogger(__name__)
#: What all work needs, so that its failure is one failure.
_STORE = 'The store cannot be used'


class Failures:
    """What fails now, and why; can be used by several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The last reason of each kind of work, and how often it has failed.
        self._known: dict[str, tuple[str, int]] = {}

    def failed(self, what: str, exc: Exception) -> None:
        """Log that something failed, unless it is known to fail for this reason."""
        key, reason = what, f'{type(exc).__name__}: {exc}'
        if isinstance(exc, StoreError):
            # Reads and writes fail for one reason, which comes behind what was done.
            key, reason = _STORE, str(exc).partition(': ')[2] or str(exc)
        with self._lock:
            known, count = self._known.get(key, (None, 0))
            again = known == reason
            self._known[key] = (reason, count + 1)
        if again:
            return
        if isinstance(exc, KilnError):
            LOG.warning('%s: %s', what, exc)
        else:
            # A defect, of which the place has to be known.
            LOG.error('%s: %s', what, exc, exc_info=exc)

    def succeeded(self, what: str) -> None:
        """Log that something goes on which had failed."""
        with self._lock:
            over = [(key, self._known.pop(key, ('', 0))) for key in (what, _STORE)]
        for key, (_, count) in over:
            if count > 1:
                LOG.warning('No longer so, after %d times: %s', count, key)
