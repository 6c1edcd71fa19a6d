"""The one interface through which metrics, traces and callers hear of events."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable
from typing import Any

from kiln.exceptions import AmphoraComputeError

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class CallRecord:
    """One call to a backend, from the moment it is sent."""

    backend: str
    operation: str
    traffic: str
    subject: str = ''
    started_at: float = 0.0
    duration_s: float = 0.0
    error: AmphoraComputeError | BaseException | None = None
    # Room for the listener's own between start and end, such as a span.
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)


class Listener:
    """Hears what happens in the stacks of all backends; override what you need.

    Methods are called on kiln's threads, in the middle of its work: return
    soon. What a listener raises is logged once and goes no further.
    """

    def call_started(self, record: CallRecord) -> None:
        """Hear that a call leaves for the backend, on the thread that makes it."""

    def call_finished(self, record: CallRecord) -> None:
        """Hear how it ended, on the same thread."""

    def circuit_changed(self, backend: str, traffic: str, old: str, new: str) -> None:
        """Hear that a circuit opened, half-opened or closed."""

    def queue_changed(self, backend: str, waiting: int, running: int) -> None:
        """Hear how many operations wait for a thread and how many have one."""

    def builds_changed(self, backend: str, in_flight: int) -> None:
        """Hear how many builds are accepted and not yet at their goal."""

    def ticked(self, backend: str, watched: int, lag_s: float) -> None:
        """Hear that the watcher looked, for how many, how much later than planned."""


class Listeners(Listener):
    """Several listeners as one; none can harm the others or the caller."""

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
            # Whatever a plugin raises must not become the result of a build.
            except Exception:
                if (id(listener), name) not in self._complained:
                    self._complained.add((id(listener), name))
                    LOG.exception('Listener %s failed in %s; more of it is not logged',
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


def guarded(listener: Listener | None) -> Listener | None:
    """Return a listener that cannot harm its caller, or None where nobody listens."""
    if listener is None or type(listener) is Listener:
        return None
    return listener if isinstance(listener, Listeners) else Listeners([listener])
