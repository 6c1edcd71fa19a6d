"""Circuits shared by several processes: one record, changed by compare-and-set.

Shared are the state, the moment a probe may go and the probe's lease, so a
trip opens the circuit for all and one process at a time probes. The window of
outcomes is each process's own: counting together would cost a round trip per
call, and a process has seen enough once its own window holds the minimum.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import threading
import uuid
from collections.abc import Callable

from pybreaker import STATE_CLOSED, CircuitMemoryStorage

from kiln.wrappers.circuit_phase import Phase


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SharedPhase:
    """A phase as processes exchange it: spans of time instead of moments.

    Each change has a new ``version``, so that no process takes a later record
    for the one it knew. The version is empty if the record does not exist.
    """

    version: str = ''
    state: str = STATE_CLOSED
    remaining_s: float = 0.0
    trips: int = 0
    successes: int = 0
    opened_by: str = ''

    @classmethod
    def of(cls, phase: Phase, now: float) -> SharedPhase:
        """Return a phase of this process, to be offered to other processes."""
        return cls(
            version=uuid.uuid4().hex,
            state=phase.state,
            remaining_s=max(0.0, phase.until - now),
            trips=phase.trips,
            successes=phase.successes,
            opened_by=phase.opened_by or '',
        )

    def after(self, phase: Phase, now: float) -> Phase:
        """Return the phase that follows a phase of this process."""
        return Phase(
            generation=phase.generation + 1,
            state=self.state,
            until=now + self.remaining_s,
            trips=self.trips,
            successes=self.successes,
            opened_by=self.opened_by or None,
            # The error itself stays in the process that saw it.
            cause=phase.cause if self.state != STATE_CLOSED else None,
        )


class SharedStorage(CircuitMemoryStorage, abc.ABC):
    """A storage of pybreaker that also exchanges phases with other processes.

    pybreaker reads and writes this process's memory, so that no call stalls
    while the shared record is out of reach.
    """

    #: How old this process's knowledge may become while calls come in.
    refresh_s: float = 0.2

    def __init__(self) -> None:
        super().__init__(STATE_CLOSED)

    @abc.abstractmethod
    def exchange(self, known: str, offered: SharedPhase | None) -> SharedPhase | None:
        """Return the shared record, after replacing it by what is offered.

        It is replaced only if its version is the one known, or if it does not
        exist. None means that it cannot be reached now; nothing is raised.
        """

    def close(self) -> None:
        """Give back connections; safe to repeat."""


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
        # Held during an exchange, which can take long; no call waits for it,
        # except one that changes the circuit's phase.
        self._wire = threading.Lock()
        self._version = ''
        self._agreed = 0
        self._look_at = -math.inf

    def look(self) -> bool:
        """Agree again if it is time, in one thread; the other threads go on."""
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
        """Offer a new phase, or adopt an earlier one of the others and return True."""
        with self._wire:
            return self._exchange()

    def _exchange(self) -> bool:
        phase, offered = self._current(), None
        if phase.generation != self._agreed:
            offered = SharedPhase.of(phase, self._monotonic())
        found = self._storage.exchange(self._version, offered)
        if found is None:
            # Out of reach: this process's memory rules, and is offered later.
            return False
        if offered is not None and found.version == offered.version:
            self._version, self._agreed = found.version, phase.generation
        elif not found.version:
            # The record is lost, or was never written; a circuit that is not
            # closed here is worth offering, at the next look.
            self._version = ''
            self._agreed = phase.generation if phase.state == STATE_CLOSED else -1
        elif found.version != self._version:
            self._version = found.version
            self._agreed = self._adopt(found).generation
            return True
        return False
