"""Log of outages: one line when a backend no longer answers, and one when it does again."""

from __future__ import annotations

import logging
import threading

from kiln.clusters.models import Cause

LOG = logging.getLogger(__name__)


class OutageLog:
    """The backends that do not answer this process; can be used by several threads at once.

    Each part that polls machines reports here, so an outage is logged once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._silent: frozenset[str] = frozenset()

    @property
    def silent(self) -> frozenset[str]:
        """The backends that do not answer."""
        return self._silent

    def report(self, backend: str, cause: Cause | None) -> None:
        """Note that a backend does not answer, or, without a cause, that it does."""
        with self._lock:
            before = self._silent
            changed = before - {backend} if cause is None else before | {backend}
            self._silent = changed
        if changed == before:
            return
        if cause is None:
            LOG.warning('Backend %s answers the polls of its machines again', backend)
        else:
            LOG.warning(
                'Backend %s does not answer the polls of its machines: %s', backend, cause.message
            )
