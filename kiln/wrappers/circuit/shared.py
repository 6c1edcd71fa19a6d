"""Shared circuits of several processes: one record, changed by compare-and-set.

The processes share the state, the time of the next probe and the probe's lease, so a trip
opens the circuit for all, and one process at a time probes. Each process has its own
window of results: a common count would cost a round trip per call, and a process has
enough results once its own window holds the minimum.

A process with access to the record can open the circuit. So no record keeps calls back for longer
than a day, not even that of a circuit which was opened by hand.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import threading
import uuid
from collections.abc import Callable

from pybreaker import STATE_CLOSED, CircuitMemoryStorage

from kiln.wrappers.circuit.phase import Phase

#: The longest that one record keeps calls back.
LONGEST_S = 24 * 3600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SharedPhase:
    """A phase as processes exchange it: durations instead of points in time.

    Each change has a new ``version``, so that no process mistakes a later record for the
    record that it knew. The version is empty if the record does not exist.
    """

    version: str = ''
    state: str = STATE_CLOSED
    remaining_s: float = 0.0
    trips: int = 0
    successes: int = 0
    opened_by: str = ''
    manual: bool = False

    @classmethod
    def of(cls, phase: Phase, now: float) -> SharedPhase:
        """Return a phase of this process for the exchange with other processes."""
        return cls(
            version=uuid.uuid4().hex,
            state=phase.state,
            remaining_s=min(max(0.0, phase.until - now), LONGEST_S),
            trips=phase.trips,
            successes=phase.successes,
            opened_by=phase.opened_by or '',
            manual=phase.manual,
        )

    def after(self, phase: Phase, now: float) -> Phase:
        """Return the phase that follows a phase of this process."""
        return Phase(
            generation=phase.generation + 1,
            state=self.state,
            until=now + min(self.remaining_s, LONGEST_S),
            trips=self.trips,
            successes=self.successes,
            opened_by=self.opened_by or None,
            # The error itself stays in the process that received it.
            cause=phase.cause if self.state != STATE_CLOSED else None,
            manual=self.manual,
        )


class SharedStorage(CircuitMemoryStorage, abc.ABC):
    """A storage of pybreaker that also exchanges phases with other processes.

    pybreaker reads and writes this process's memory, so that no call waits while the
    shared record is unreachable.
    """

    #: Maximum age of this process's copy while calls arrive.
    refresh_s: float = 0.2

    def __init__(self) -> None:
        super().__init__(STATE_CLOSED)

    @abc.abstractmethod
    def exchange(self, known: str, offered: SharedPhase | None) -> SharedPhase | None:
        """Return the shared record, after replacing it with the offered phase.

        It is replaced only if its version is ``known``, or if it does not exist. None means
        that it is unreachable now; nothing is raised.
        """

    def close(self) -> None:
        """Release connections; safe to repeat."""


class Peers:
    """Keeps one circuit of this process in step with the shared record."""

    def __init__(
        self,
        storage: SharedStorage,
        monotonic: Callable[[], float],
        current: Callable[[], Phase],
        adopt: Callable[[SharedPhase], Phase],
    ) -> None:
        self._storage = storage
        self._monotonic = monotonic
        self._current = current
        self._adopt = adopt
        # Held during an exchange, which can take long; no call waits for it, except a
        # call that changes the circuit's phase.
        self._wire = threading.Lock()
        self._version = ''
        self._agreed = 0
        self._look_at = -math.inf

    def look(self) -> bool:
        """Exchange again if it is due, in one thread; the other threads continue."""
        now = self._monotonic()
        if now < self._look_at or not self._wire.acquire(blocking=False):
            return False
        try:
            self._look_at = now + self._storage.refresh_s
            self._exchange()
        finally:
            self._wire.release()
        return True

    def agree(self) -> bool:
        """Offer a new phase, or adopt an earlier phase of another process and return True."""
        with self._wire:
            return self._exchange()

    def _exchange(self) -> bool:
        phase, offered = self._current(), None
        if phase.generation != self._agreed:
            offered = SharedPhase.of(phase, self._monotonic())
        found = self._storage.exchange(self._version, offered)
        if found is None:
            # Unreachable: this process's memory applies, and is offered later.
            return False
        if offered is not None and found.version == offered.version:
            self._version, self._agreed = found.version, phase.generation
        elif not found.version:
            # The record was lost or never written. A circuit that is not closed here is
            # offered at the next exchange.
            self._version = ''
            self._agreed = phase.generation if phase.state == STATE_CLOSED else -1
        elif found.version != self._version:
            self._version = found.version
            self._agreed = self._adopt(found).generation
            return True
        return False
