"""Change notifications of a circuit, in order, through pybreaker."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

import pybreaker
from pybreaker import STATE_CLOSED, STATE_HALF_OPEN, STATE_OPEN

LOG = logging.getLogger(__name__)


class StateChanges:
    """A queue of changes that pybreaker still has to store and announce.

    pybreaker notifies its listeners under its own lock. Only :meth:`publish` takes that
    lock, so no call waits for a listener. A listener must not raise: pybreaker would
    neither notify the next one nor finish the change.
    """

    def __init__(self, breaker: pybreaker.CircuitBreaker) -> None:
        self._breaker = breaker
        self._enter: dict[str, Callable[[], object]] = {
            STATE_CLOSED: breaker.close,
            STATE_HALF_OPEN: breaker.half_open,
            STATE_OPEN: breaker.open,
        }
        #: States, each with the reason for it.
        self._waiting: deque[tuple[str, str]] = deque()
        self._publishing = threading.Lock()

    def add(self, state: str, reason: str = '') -> None:
        """Queue a change to a state, for the next :meth:`publish`."""
        self._waiting.append((state, reason))

    def publish(self) -> None:
        """Store the queued changes and notify the listeners of each."""
        # One thread publishes all changes, in order; other threads leave their changes in
        # the queue. The outer loop handles changes that are queued between the last check
        # and the release.
        while self._waiting and self._publishing.acquire(blocking=False):
            try:
                while self._waiting:
                    old, (new, reason) = self._breaker.current_state, self._waiting.popleft()
                    after = f', after: {reason}' if reason else ''
                    LOG.info('Circuit %s: %s -> %s%s', self._breaker.name, old, new, after)
                    self._enter[new]()
            finally:
                self._publishing.release()
