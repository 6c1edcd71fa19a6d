"""Poll interval of the watcher: decides when the next poll is due; pure, no clock."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable

from kiln.exceptions import ConfigurationError

#: Maximum pause until the next poll, as a share of the time without a change. So a wait
#: of any length ends at most about a tenth late.
QUIET_SHARE = 0.1
#: Seconds before its deadline at which a wait is polled for the last time.
LAST_POLL_S = 0.5
#: Seconds from a poll to the next poll after a notification from the backend, whose
#: answer is then cheap.
NEWS_S = 0.2


@dataclasses.dataclass(frozen=True, kw_only=True)
class WatcherSettings:
    """Poll intervals of a watcher; all except ``jitter`` are seconds."""

    #: Between two polls while something changes.
    interval_s: float = 1.0
    #: Between two polls after a long time without changes, or repeated failure.
    max_interval_s: float = 30.0
    #: Share by which each interval varies, so that processes spread out.
    jitter: float = 0.1
    #: Between two polls of every amphora by its id, regardless of the changes that the
    #: backend reports.
    full_sweep_s: float = 300.0

    def __post_init__(self) -> None:
        rules = {
            'interval_s must be above 0': self.interval_s > 0,
            'max_interval_s must be finite and at least interval_s': (
                self.interval_s <= self.max_interval_s < math.inf
            ),
            'jitter must be from 0 to 0.5': 0 <= self.jitter <= 0.5,
            'full_sweep_s must be above 0': self.full_sweep_s > 0,
        }
        if broken := [rule for rule, kept in rules.items() if not kept]:
            raise ConfigurationError(f'Cannot watch with {self}: {"; ".join(broken)}.')

    @property
    def oldest_s(self) -> float:
        """Age from which a status is stale."""
        return 2 * self.max_interval_s


class PollInterval:
    """Time of the next poll, based on the results of the last polls.

    Not thread-safe: the watcher guards it with the lock on which it sleeps.
    """

    def __init__(
        self, settings: WatcherSettings, *, chance: Callable[[], float] = random.random
    ) -> None:
        self._settings = settings
        self._chance = chance
        self._quiet_since = -math.inf
        self._failures = 0
        # Not even an urgent request moves the next poll before this time; nor does a
        # notification before the second time.
        self._earliest = self._earliest_news = -math.inf
        # When a wait that is about to end needs a poll; infinite if none does.
        self._last_at = math.inf
        # When the pause ends that the backend requested.
        self._requested = -math.inf
        # Duration of the last poll that was answered.
        self._took_s = 0.0
        #: When the next poll is due; infinite until :meth:`poll_by` is called.
        self.due = math.inf

    def poll_by(self, at: float, *, news: bool = False) -> bool:
        """Poll then, for a new waiter or a notification; return True if that is sooner."""
        self._quiet_since = max(self._quiet_since, at)
        earliest = self._earliest_news if news else self._earliest
        planned, self.due = self.due, min(self.due, max(earliest, at))
        return self.due < planned

    def last_poll_s(self, wait_s: float) -> float:
        """Return how long before its end a wait needs its last poll, the answer included."""
        return min(wait_s / 2, max(LAST_POLL_S, NEWS_S + 2 * self._took_s))

    def poll_last(self, at: float) -> bool:
        """Poll then, because a wait is about to end; return True if that is sooner.

        It is of no use to the other waits, so polls become no more frequent after it.
        """
        self._last_at = min(self._last_at, at)
        planned, self.due = self.due, min(self.due, max(self._earliest_news, at))
        return self.due < planned

    def stop_polling(self) -> None:
        """Plan no poll until :meth:`poll_by` is called, because nothing waits."""
        self.due = math.inf

    def answered(self, started: float, ended: float, *, moved: bool) -> None:
        """Plan the next poll after an answered poll."""
        self._failures = 0
        if moved:
            self._quiet_since = ended
        quiet_s = ended - self._quiet_since
        fast_s, slow_s = self._settings.interval_s, self._settings.max_interval_s
        interval_s = min(slow_s, max(fast_s, quiet_s * QUIET_SHARE))
        spread = 1 + self._settings.jitter * (2 * self._chance() - 1)
        # A slow backend gets a pause, which delays results only if the pause is longer
        # than the interval: there is never more than one poll at a time.
        rested = ended + min(ended - started, fast_s)
        self._earliest = max(started + fast_s * spread, rested)
        self._earliest_news = min(self._earliest, ended + NEWS_S)
        self.due = max(started + interval_s * spread, rested)
        self._took_s = ended - started
        if self._last_at <= started:
            self._last_at = math.inf
        # A wait that came near its end during the poll might have been polled before.
        self.due = min(self.due, max(self._earliest_news, self._last_at))

    def resume(self, now: float) -> bool:
        """Poll now if the last polls failed: other calls are answered; return True if sooner.

        A pause that the backend requested is kept.
        """
        if not self._failures or self.due == math.inf:
            return False
        self._failures = 0
        planned, self.due = self.due, min(self.due, max(now, self._requested))
        self._earliest = self._earliest_news = self.due
        return self.due < planned

    def failed(self, ended: float, retry_after: float | None, *, requested: bool = True) -> None:
        """Back off after a poll that was not answered.

        ``requested`` means that the backend has asked for the pause, and no circuit of kiln.
        """
        self._failures += 1
        # The exponent is capped, because days of outage would overflow a float.
        grown = self._settings.interval_s * 2 ** min(self._failures, 30)
        wait_s = max(min(self._settings.max_interval_s, grown), retry_after or 0.0)
        self._requested = ended + retry_after if retry_after and requested else -math.inf
        # Only ever later, because the backend requested the pause.
        self.due = ended + wait_s * (1 + self._settings.jitter * self._chance())
        self._earliest = self._earliest_news = self.due
        self._last_at = math.inf
