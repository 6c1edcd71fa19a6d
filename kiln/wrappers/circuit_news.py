"""Carries the news of a circuit to its listeners, in order and under no lock."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

import pybreaker

LOG = logging.getLogger(__name__)


class Herald:
    """Tells pybreaker's listeners what happened; none can harm a call."""

    def __init__(self) -> None:
        self._news: deque[tuple[Any, Any]] = deque()
        self._telling = threading.Lock()
        self._complained: set[tuple[int, str]] = set()

    def note(self, before: Any, after: Any) -> None:
        """Keep a change of state, to be told by :meth:`announce`."""
        self._news.append((before, after))

    def announce(self, circuit: pybreaker.CircuitBreaker) -> None:
        """Tell the changes noted so far."""
        # One thread tells all of them, in order; whoever comes meanwhile
        # leaves its own behind. The outer loop catches what is left behind
        # between the last look and the release.
        while self._news and self._telling.acquire(blocking=False):
            try:
                while self._news:
                    before, after = self._news.popleft()
                    LOG.info('Circuit %s: %s -> %s', circuit.name, before.name, after.name)
                    self.tell(circuit, 'state_change', before, after)
            finally:
                self._telling.release()

    def tell(
        self, circuit: pybreaker.CircuitBreaker, word: str, *args: Any, **kwargs: Any
    ) -> None:
        """Tell every listener one thing; what it raises is logged once."""
        for listener in circuit.listeners:
            try:
                getattr(listener, word)(circuit, *args, **kwargs)
            # Whatever a listener raises must not become the result of a call.
            except Exception:
                if (id(listener), word) not in self._complained:
                    self._complained.add((id(listener), word))
                    LOG.exception('Listener %s failed in %s; more of it is not logged',
                                  type(listener).__name__, word)  # fmt: skip
