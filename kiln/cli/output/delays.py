"""Delays of backends, printed while a command waits for them."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator

from kiln.clock import Clock, Deadline, clock_time
from kiln.exceptions import KilnError
from kiln.telemetry.events import Listener
from kiln.wrappers.operations.errand import NoAnswerSoFar
from kiln.wrappers.operations.scheduler import Scheduler

#: Seconds until a reason is printed. A command that ends sooner reports the error itself.
PATIENCE_S = 1.0


class Delays(Listener):
    """Prints why calls take longer, each reason once for each backend.

    What kiln's own conductor does for clusters is shown as the progress of the operation, so
    it is left out here.
    """

    def __init__(self, say: Callable[[str], None], clock: Clock) -> None:
        self._say = say
        self._clock = clock
        self._scheduler = Scheduler(name='delays', clock=clock)
        self._lock = threading.Lock()
        self._seen: set[tuple[str, str]] = set()
        self._muted = False
        self._until: Deadline | None = None

    def limited_by(self, deadline: Deadline | None) -> None:
        """Print with each reason until when the command tries."""
        self._until = deadline

    def delayed(self, backend: str, error: BaseException) -> None:
        # The same error of two machines differs in their names, and in the time of a retry.
        reason = backend, error.code if isinstance(error, KilnError) else type(error).__name__
        with self._lock:
            if self._muted or reason in self._seen:
                return
            self._seen.add(reason)
        text = f'{backend} delays this: {error}'
        # A silence is reported only after some seconds, which are patience enough.
        pause_s = 0.0 if isinstance(error, NoAnswerSoFar) else PATIENCE_S
        self._scheduler.call_later(pause_s, functools.partial(self._print, text))

    def _print(self, text: str) -> None:
        if self._until is not None:
            ends_at = self._clock.time() + self._until.remaining_s()
            text = f'{text} It is tried until {clock_time(ends_at)}.'
        self._say(text)

    @contextlib.contextmanager
    def muted(self) -> Iterator[None]:
        """Print nothing new for a while."""
        self._muted = True
        try:
            yield
        finally:
            self._muted = False

    def close(self) -> None:
        """Print nothing more."""
        self._scheduler.close()
