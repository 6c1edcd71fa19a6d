"""Look-ups of OpenStack's resources by name or id: what is remembered, and what was not found."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from kiln.clock import Clock, current_deadline
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.exceptions import AmphoraComputeError, InvalidBuildRequest, InvalidRequest

#: Seconds between two look-ups of an unknown name.
MISS_S = 5.0
#: How many names are requested for an error.
LISTED = 100
#: How many names of what exists an error lists.
NAMED = 20


class Remembered:
    """What was looked up lately, for any number of threads."""

    def __init__(self, clock: Clock, *, ttl_s: float) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._lock = threading.Lock()
        self._known: dict[Hashable, tuple[float, Any]] = {}
        # The look-ups under way, with the event to set when each is finished.
        self._asking: dict[Hashable, threading.Event] = {}

    def forget(self) -> None:
        """Drop everything; the next use looks it up again."""
        with self._lock:
            self._known.clear()

    def drop(self, what: Hashable) -> None:
        """Drop one thing."""
        with self._lock:
            self._known.pop(what, None)

    def get(
        self, what: Hashable, look: Callable[[], Any], *, oldest_s: float | None = None
    ) -> Any:
        """Return what a look has found, now or before; ``oldest_s`` is how long ago at most."""
        answered = threading.Event()
        other = self._asking.setdefault(what, answered)
        if other is not answered:
            # Only one of many concurrent builds sends the request; if it fails, each does.
            deadline = current_deadline()
            other.wait(None if deadline is None else max(0.0, deadline.remaining_s()))
        try:
            return self._fresh(what, look, self._ttl_s if oldest_s is None else oldest_s)
        finally:
            if other is answered:
                del self._asking[what]
                answered.set()

    def _fresh(self, what: Hashable, look: Callable[[], Any], oldest_s: float) -> Any:
        now = self._clock.monotonic()
        with self._lock:
            at, value = self._known.get(what, (0.0, None))
        if value is None or now - at >= oldest_s:
            value = look()
            with self._lock:
                self._known[what] = (now, value)
        return value

    def names(self, kind: str, rows: Callable[[], Iterable[Mapping[str, Any]]]) -> Sequence[str]:
        """Return the names of what exists, for an error; empty if they cannot be read."""
        try:
            names: Sequence[str] = self.get(
                ('names', kind),
                lambda: sorted({row.get('name') or '' for row in rows()}),
                oldest_s=MISS_S,
            )
        except AmphoraComputeError:
            # The error is about something else.
            return ()
        return [name for name in names if name]


def is_missing(exc: AmphoraComputeError) -> bool:
    """Return True for the error of a 404 of the service itself."""
    # The error for another 404 is retryable.
    return exc.http_status == 404 and not exc.retryable


def is_uuid(text: str) -> bool:
    """Return True if a text has the form of the ids of most services."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def invalid(asked: Asked, why: str) -> AmphoraComputeError:
    """Return the error for a wrong argument."""
    return asked.error(InvalidBuildRequest if asked.building else InvalidRequest, why)


def ambiguous(asked: Asked, kind: str, name: str, ids: Sequence[str]) -> AmphoraComputeError:
    """Return the error for a name that several things have."""
    return invalid(
        asked, f'{len(ids)} {kind}s are named {name!r}: {", ".join(ids)}. Use one of these ids.'
    )


def not_found(
    asked: Asked, kind: str, name: str, known: Collection[str] | Mapping[str, str]
) -> AmphoraComputeError:
    """Return the error for a name that nothing has; it tells what there is."""
    return invalid(asked, f'{kind} {name!r} was not found.{_told(known)}')


def _told(known: Collection[str] | Mapping[str, str]) -> str:
    """Return a sentence about what exists: its names, and not too many of them."""
    # A mapping has names and ids, to ids.
    ids = known if isinstance(known, Mapping) else {}
    named = {id_ for name, id_ in ids.items() if id_ != name}
    names = sorted({*known} - named, key=lambda one: (ids.get(one) == one, one))
    if not names:
        return ''
    more = f' and {len(names) - NAMED} more' if len(names) > NAMED else ''
    return f' Known: {", ".join(names[:NAMED])}{more}.'
