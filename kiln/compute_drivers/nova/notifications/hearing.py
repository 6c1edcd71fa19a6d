"""Detector of a bus that is connected, but on which Nova reports no builds."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection

from kiln.clock import Clock

#: Seconds without a report about any server of this site, while builds wait for their first
#: one, after which Nova is polled. Nova's first report about a build comes from its host.
QUIET_S = 2.0
#: How many builds without a report are remembered.
_MEMORY = 20_000


class Hearing:
    """Whether Nova reports the servers that are built here.

    A broker that accepts the connection proves nothing: Nova's services share it even if
    they send no notifications. The bus is *quiet* while builds wait for their first report
    and nothing is reported about this site; the host of such a build might still be busy
    with others. It is *deaf* once Nova's API shows that such a build is done. Thread-safe;
    no call is slow.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # When the create request of each build without a report was sent.
        self._unheard: dict[str, float] = {}
        self._heard_at = -math.inf
        # When the connection was made; infinite without a connection.
        self._up_at = math.inf
        self._last_at: float | None = None
        #: True from the proof that Nova reports no builds to the next report about one.
        self.deaf = False
        #: How often Nova had to be polled since nothing was reported.
        self.silences = 0
        self._was_quiet = False

    def sent(self, server_id: str, at: float) -> None:
        """Expect a report about a server that was created here."""
        with self._lock:
            self._unheard[server_id] = at
            if len(self._unheard) > _MEMORY:
                del self._unheard[next(iter(self._unheard))]

    def heard(self, server_id: str, *, ours: bool) -> bool:
        """Record a report; return True if it ends a deafness."""
        now = self._clock.monotonic()
        with self._lock:
            self._last_at = now
            if not ours:
                return False
            self._unheard.pop(server_id, None)
            self._heard_at = now
            was_deaf, self.deaf = self.deaf, False
            return was_deaf

    def forget(self, server_ids: Collection[str]) -> None:
        """Expect no report about these servers any longer."""
        with self._lock:
            for server_id in server_ids:
                self._unheard.pop(server_id, None)

    def up(self) -> None:
        """Expect reports: the connection was made."""
        with self._lock:
            self._up_at = self._clock.monotonic()

    def down(self) -> None:
        """Expect no reports: the connection broke."""
        with self._lock:
            self._up_at = math.inf

    def shown(self, server_ids: Collection[str]) -> str | None:
        """Take in the servers that Nova's API shows as built.

        Return one that proves that the bus is deaf, once; None otherwise.
        """
        with self._lock:
            quiet = self._quiet()
            sent = {one: self._unheard.pop(one, -math.inf) for one in server_ids}
            # What was sent before the connection was made can have been reported before it.
            unheard = [one for one, at in sent.items() if at >= self._up_at]
            if not unheard or not quiet or self.deaf:
                return None
            self.deaf = True
            return unheard[0]

    def quiet(self) -> bool:
        """Return True if Nova must be polled for the builds that wait for a report."""
        with self._lock:
            quiet = self.deaf or self._quiet()
            self.silences += quiet and not self._was_quiet
            self._was_quiet = quiet
            return quiet

    def last_heard_s(self) -> float | None:
        """Return the seconds since the last report about any server of this Nova."""
        with self._lock:
            return None if self._last_at is None else self._clock.monotonic() - self._last_at

    def _quiet(self) -> bool:
        if not self._unheard:
            return False
        # Builds are remembered in the order in which they were sent.
        since = max(self._heard_at, self._up_at, next(iter(self._unheard.values())))
        return self._clock.monotonic() - since >= QUIET_S
