"""Rate limit: keeps the calls to a backend below the rate that it allows."""

from __future__ import annotations

import dataclasses
import math
import threading
from typing import Any

from kiln.compute_drivers.authoring.wording import attempt
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import AmphoraComputeError, ConfigurationError, RateLimited
from kiln.wrappers.base import DriverWrapper

# Large enough for rounding errors of a token, and negligible as a pause: a caller that
# waits exactly as long as wait_s() returned must not fail by the last digit of a float.
_ONE = 1 - 1e-6
_MOMENT_S = 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class RateSettings:
    """Rate of the calls to a backend, and how it adapts."""

    rate_per_s: float
    #: Number of calls that can be sent at once after a quiet time.
    burst: int = 10
    #: Minimum rate, unless the full rate itself is lower.
    floor_per_s: float = 0.1
    #: Growth of a lowered rate in each second without a refusal, as a share of the full
    #: rate: 0.01 restores it from half in 50 seconds.
    recovery: float = 0.01
    #: Pause after a refusal if the backend requests none; refusals closer together than
    #: this halve the rate once.
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
    """Token bucket: tokens arrive at a rate, up to a burst; each call takes one.

    A refusal of the backend halves the rate and stops all calls for as long as the backend
    requests; after that one call can go, and the rate grows back gradually. Not
    thread-safe, and without a clock: callers pass the time.
    """

    def __init__(self, settings: RateSettings, now: float) -> None:
        self._settings = settings
        self._floor = min(settings.floor_per_s, settings.rate_per_s)
        self._growth = settings.recovery * settings.rate_per_s
        self._rate = settings.rate_per_s
        self._tokens = float(settings.burst)
        # The tokens are counted up to this time; in a pause, up to its end.
        self._counted_at = now
        self._spared_until = now

    @property
    def rate_per_s(self) -> float:
        """Tokens a second, at the last time that was passed."""
        return self._rate

    def wait_s(self, now: float) -> float:
        """Return the seconds until a token is available; 0 if one is."""
        if self._has_token(now):
            return 0.0
        pause = max(0.0, self._counted_at - now)
        return pause + (self._seconds_for(1 - self._tokens) if self._tokens < _ONE else 0.0)

    def take(self, now: float) -> bool:
        """Take a token if one is available."""
        if not self._has_token(now):
            return False
        self._tokens -= 1
        return True

    def slow_down(self, now: float, pause_s: float) -> None:
        """Process a refusal of the backend; many refusals at the same time count once."""
        self._refill(now)
        if now >= self._spared_until:
            self._rate = max(self._floor, self._rate / 2)
            self._spared_until = now + max(pause_s, self._settings.pause_s)
        end = max(self._counted_at, now + pause_s)
        # Tokens that arrive during the pause are kept for the one call that can go as
        # soon as it ends, as the backend stated.
        self._tokens = min(1.0, self._tokens + self._rate * (end - self._counted_at))
        self._counted_at = end

    def _has_token(self, now: float) -> bool:
        self._refill(now)
        return self._tokens >= _ONE and self._counted_at - now <= _MOMENT_S

    def _refill(self, now: float) -> None:
        elapsed = now - self._counted_at
        if elapsed <= 0:
            return
        self._tokens = min(float(self._settings.burst), self._tokens + self._tokens_in(elapsed))
        self._rate = min(self._settings.rate_per_s, self._rate + self._growth * elapsed)
        self._counted_at = now

    def _recovery_s(self) -> float:
        return (self._settings.rate_per_s - self._rate) / self._growth

    def _tokens_in(self, seconds: float) -> float:
        # The rate grows linearly until it is full: a trapezium, then a rectangle.
        growing = min(seconds, self._recovery_s())
        ramp = self._rate * growing + self._growth * growing * growing / 2
        return ramp + self._settings.rate_per_s * (seconds - growing)

    def _seconds_for(self, tokens: float) -> float:
        growing = self._recovery_s()
        ramp = self._tokens_in(growing)
        if tokens >= ramp:
            return growing + (tokens - ramp) / self._settings.rate_per_s
        # The positive root of growth/2 * t^2 + rate * t = tokens, in the form that loses
        # no digits if the growth is small.
        root = math.sqrt(self._rate * self._rate + 2 * self._growth * tokens)
        return 2 * tokens / (self._rate + root)


class RateDriver(DriverWrapper):
    """A driver with one bucket for all calls to its backend; it never sleeps.

    If the bucket is empty a call is refused, and ``refusal`` reports so beforehand, so that
    a caller can choose to wait.
    """

    def __init__(self, inner: AmphoraComputeDriver, *, settings: RateSettings) -> None:
        super().__init__(inner)
        self._settings = settings
        self._lock = threading.Lock()
        self._bucket = TokenBucket(settings, self.clock.monotonic())

    @property
    def rate_per_s(self) -> float:
        """Current limit of calls a second to the backend."""
        with self._lock:
            self._bucket.wait_s(self.clock.monotonic())
            return self._bucket.rate_per_s

    def perform(self, call: Call, *args: Any) -> Any:
        if call.ability is not None and call.ability not in self.abilities:
            raise self._unsupported(call)
        with self._lock:
            now = self.clock.monotonic()
            wait_s = 0.0 if self._bucket.take(now) else self._bucket.wait_s(now)
        if wait_s:
            limited = self._limited(call, wait_s)
            if call is Call.BUILD:
                limited.build_key = args[0].build_key
            raise limited
        try:
            return self.inner.perform(call, *args)
        except RateLimited as exc:
            pause_s = exc.retry_after or self._settings.pause_s
            with self._lock:
                self._bucket.slow_down(self.clock.monotonic(), pause_s)
            raise

    def refusal(self, call: Call) -> AmphoraComputeError | None:
        if call.ability is not None and call.ability not in self.abilities:
            return self._unsupported(call)
        with self._lock:
            wait_s = self._bucket.wait_s(self.clock.monotonic())
        return self._limited(call, wait_s) if wait_s else self.inner.refusal(call)

    def _limited(self, call: Call, wait_s: float) -> RateLimited:
        return RateLimited(
            f'Cannot {attempt(call.label)} now: backend {self.name!r} is sent at most '
            f'{self._bucket.rate_per_s:.3g} calls a second; repeat in {wait_s:.3f} s.',
            retry_after=wait_s,
            backend=self.name,
            operation=call.label,
        )
