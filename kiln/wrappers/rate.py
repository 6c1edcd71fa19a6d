"""Keeps the calls to a backend below the rate that it allows."""

from __future__ import annotations

import dataclasses
import math
import threading
from typing import Any

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.wording import attempt
from kiln.exceptions import AmphoraComputeError, ConfigurationError, RateLimited
from kiln.wrappers.base import DriverWrapper

# Enough of a token to be one, and too little of a pause to be one: who waits
# for exactly as long as wait_s() said must not fail by the last digit of a float.
_ONE = 1 - 1e-6
_MOMENT_S = 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class RateSettings:
    """How many calls a backend is sent, and how that adapts."""

    rate_per_s: float
    #: Calls that may leave at once after a quiet time.
    burst: int = 10
    #: The rate is never lowered below this, or below the rate itself.
    floor_per_s: float = 0.1
    #: What a second without a refusal adds to a lowered rate, as a share of
    #: the full one: 0.01 brings it back from half in 50 seconds.
    recovery: float = 0.01
    #: How long the backend is left alone if it does not say so itself; and
    #: refusals closer to each other than this halve the rate once.
    pause_s: float = 1.0

    def __post_init__(self) -> None:
        for name in ('rate_per_s', 'floor_per_s', 'recovery', 'pause_s'):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ConfigurationError(f'Rate setting {name} must be above 0, not {value!r}.')
        if not isinstance(self.burst, int) or self.burst < 1:
            raise ConfigurationError(
                f'Rate setting burst must be a whole number of 1 or more, not {self.burst!r}.'
            )


class TokenBucket:
    """Tokens that trickle in up to a burst; each call takes one.

    A refusal of the backend halves the trickle and stops all calls for as
    long as the backend asks; after that one may go, and the trickle grows
    back little by little. Not thread-safe, and reads no clock: it is told
    the time.
    """

    def __init__(self, settings: RateSettings, now: float) -> None:
        self._settings = settings
        self._floor = min(settings.floor_per_s, settings.rate_per_s)
        self._growth = settings.recovery * settings.rate_per_s
        self._rate = settings.rate_per_s
        self._tokens = float(settings.burst)
        # Up to this moment the tokens are counted; in a pause, up to its end.
        self._counted_at = now
        self._spared_until = now

    @property
    def rate_per_s(self) -> float:
        """The tokens a second that trickled in when the time was last told."""
        return self._rate

    def wait_s(self, now: float) -> float:
        """Return the seconds until there is a token; 0 if there is one."""
        if self._has_token(now):
            return 0.0
        pause = max(0.0, self._counted_at - now)
        return pause + (self._seconds_for(1 - self._tokens) if self._tokens < _ONE else 0.0)

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        if not self._has_token(now):
            return False
        self._tokens -= 1
        return True

    def slow_down(self, now: float, pause_s: float) -> None:
        """Heed a refusal of the backend; of many at the same time, as one."""
        self._trickle(now)
        if now >= self._spared_until:
            self._rate = max(self._floor, self._rate / 2)
            self._spared_until = now + max(pause_s, self._settings.pause_s)
        end = max(self._counted_at, now + pause_s)
        # What trickles in during the pause is kept for the one call that may
        # go as soon as it ends, as the backend said.
        self._tokens = min(1.0, self._tokens + self._rate * (end - self._counted_at))
        self._counted_at = end

    def _has_token(self, now: float) -> bool:
        self._trickle(now)
        return self._tokens >= _ONE and self._counted_at - now <= _MOMENT_S

    def _trickle(self, now: float) -> None:
        elapsed = now - self._counted_at
        if elapsed <= 0:
            return
        self._tokens = min(float(self._settings.burst), self._tokens + self._tokens_in(elapsed))
        self._rate = min(self._settings.rate_per_s, self._rate + self._growth * elapsed)
        self._counted_at = now

    def _growing_s(self) -> float:
        return (self._settings.rate_per_s - self._rate) / self._growth

    def _tokens_in(self, seconds: float) -> float:
        # The rate grows in a straight line until it is full: a trapezium,
        # then a rectangle.
        growing = min(seconds, self._growing_s())
        ramp = self._rate * growing + self._growth * growing * growing / 2
        return ramp + self._settings.rate_per_s * (seconds - growing)

    def _seconds_for(self, tokens: float) -> float:
        growing = self._growing_s()
        ramp = self._tokens_in(growing)
        if tokens >= ramp:
            return growing + (tokens - ramp) / self._settings.rate_per_s
        # The positive root of growth/2 * t^2 + rate * t = tokens, in the form
        # that loses no digits where the growth is small.
        root = math.sqrt(self._rate * self._rate + 2 * self._growth * tokens)
        return 2 * tokens / (self._rate + root)


class RateDriver(DriverWrapper):
    """A driver with one bucket for all calls to its backend; it never sleeps.

    Where the bucket is empty a call is refused, and ``refusal`` says the same
    beforehand: who has time to wait does so, and nobody is made to.
    """

    def __init__(self, inner: AmphoraComputeDriver, *, settings: RateSettings) -> None:
        super().__init__(inner)
        self._settings = settings
        self._lock = threading.Lock()
        self._bucket = TokenBucket(settings, self.clock.monotonic())

    @property
    def rate_per_s(self) -> float:
        """The calls a second that the backend is sent now."""
        with self._lock:
            self._bucket.wait_s(self.clock.monotonic())
            return self._bucket.rate_per_s

    def perform(self, call: Call, *args: Any) -> Any:
        """Pass a call on if there is a token for it."""
        if call.ability is not None and call.ability not in self.abilities:
            raise self._unsupported(call)
        with self._lock:
            now = self.clock.monotonic()
            wait_s = 0.0 if self._bucket.take(now) else self._bucket.wait_s(now)
        if wait_s:
            raise self._limited(call, wait_s)
        try:
            return self.inner.perform(call, *args)
        except RateLimited as exc:
            pause_s = exc.retry_after or self._settings.pause_s
            with self._lock:
                self._bucket.slow_down(self.clock.monotonic(), pause_s)
            raise

    def refusal(self, call: Call) -> AmphoraComputeError | None:
        """Look at the bucket, then below; no token is taken by looking."""
        if call.ability is not None and call.ability not in self.abilities:
            return self._unsupported(call)
        with self._lock:
            wait_s = self._bucket.wait_s(self.clock.monotonic())
        return self._limited(call, wait_s) if wait_s else self.inner.refusal(call)

    def _limited(self, call: Call, wait_s: float) -> RateLimited:
        return RateLimited(
            f'Cannot {attempt(call.label)} yet: backend {self.name!r} is sent at most '
            f'{self._bucket.rate_per_s:.3g} calls a second; repeat in {wait_s:.3f} s.',
            retry_after=wait_s,
            backend=self.name,
            operation=call.label,
        )
