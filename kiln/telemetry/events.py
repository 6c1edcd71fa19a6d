"""Event listeners: the interface for metrics, traces and callers."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable
from typing import Any

from kiln.exceptions import AmphoraComputeError

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class CallRecord:
    """One call to a backend, beginning when it is sent."""

    backend: str
    operation: str
    traffic: str
    subject: str = ''
    started_at: float = 0.0
    duration_s: float = 0.0
    error: AmphoraComputeError | BaseException | None = None
    # Data of listeners between start and end, such as a span.
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)


class Listener:
    """Receives the events of all backends; override the methods you need.

    Methods are called in kiln's worker threads, so they must return quickly. Exceptions
    of a listener are logged once and go no further.
    """

    def call_started(self, record: CallRecord) -> None:
        """Receive the start of a call to the backend, in the thread that makes it."""

    def call_finished(self, record: CallRecord) -> None:
        """Receive the end of the call, in the same thread."""

    def circuit_changed(self, backend: str, traffic: str, old: str, new: str) -> None:
        """Receive a state change of a circuit."""

    def queue_changed(self, backend: str, waiting: int, running: int) -> None:
        """Receive the numbers of operations waiting for a thread and running."""

    def builds_changed(self, backend: str, in_flight: int) -> None:
        """Receive the number of builds that are accepted and not finished."""

    def ticked(self, backend: str, watched: int, lag_s: float) -> None:
        """Receive the number of watched instances and the delay of a poll."""

    def delayed(self, backend: str, error: BaseException) -> None:
        """Receive why calls take longer: an error before a repeat, or a silent backend."""


class Listeners(Listener):
    """Several listeners as one; a failing listener affects neither others nor the caller."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self._listeners = tuple(listeners)
        self._complained: set[tuple[int, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def _tell(self, name: str, *args: Any) -> None:
        for listener in self._listeners:
            method: Callable[..., None] = getattr(listener, name)
            try:
                method(*args)
            # An exception of a listener must not become the result of a build.
            except Exception:
                if (id(listener), name) not in self._complained:
                    self._complained.add((id(listener), name))
                    LOG.exception('Listener %s failed in %s; further failures are not logged',
                                  type(listener).__name__, name)  # fmt: skip

    def call_started(self, record: CallRecord) -> None:
        self._tell('call_started', record)

    def call_finished(self, record: CallRecord) -> None:
        self._tell('call_finished', record)

    def circuit_changed(self, backend: str, traffic: str, old: str, new: str) -> None:
        self._tell('circuit_changed', backend, traffic, old, new)

    def queue_changed(self, backend: str, waiting: int, running: int) -> None:
        self._tell('queue_changed', backend, waiting, running)

    def builds_changed(self, backend: str, in_flight: int) -> None:
        self._tell('builds_changed', backend, in_flight)

    def ticked(self, backend: str, watched: int, lag_s: float) -> None:
        self._tell('ticked', backend, watched, lag_s)

    def delayed(self, backend: str, error: BaseException) -> None:
        self._tell('delayed', backend, error)


def guarded(listener: Listener | None) -> Listener | None:
    """Return a listener that cannot fail its caller, or None for an empty listener."""
    if listener is None or type(listener) is Listener:
        return None
    return listener if isinstance(listener, Listeners) else Listeners([listener])
