"""Circuit settings and snapshots, as plain values."""

from __future__ import annotations

import dataclasses
import math

from kiln.exceptions import ConfigurationError


@dataclasses.dataclass(frozen=True, kw_only=True)
class CircuitSettings:
    """When a circuit opens, for how long, and what closes it again."""

    #: Share of failed calls in the window that opens the circuit.
    failure_rate: float = 0.5
    #: Minimum number of calls in the window before any share counts.
    minimum_calls: int = 5
    window_s: float = 60.0
    #: Seconds from which a call is slow; None means never.
    slow_call_s: float | None = None
    #: Share of slow calls in the window that opens the circuit.
    slow_call_rate: float = 0.8
    #: The first open period; each trip that follows soon multiplies it.
    open_s: float = 5.0
    open_factor: float = 2.0
    open_max_s: float = 30.0
    #: Share of the period that is subtracted at random, so that the probes of many
    #: processes do not coincide.
    open_jitter: float = 0.1
    #: Maximum time of a probe before another one is sent.
    probe_lease_s: float = 30.0
    #: Successful probes in a row that close the circuit.
    success_threshold: int = 1

    def __post_init__(self) -> None:
        self._check('failure_rate', 0 < self.failure_rate <= 1, 'above 0 and at most 1')
        self._check('minimum_calls', _whole(self.minimum_calls), 'a whole number of 1 or more')
        self._check('window_s', 0 < self.window_s < math.inf, 'above 0 seconds')
        self._check(
            'slow_call_s',
            self.slow_call_s is None or 0 < self.slow_call_s < math.inf,
            'above 0 seconds, or unset',
        )
        self._check('slow_call_rate', 0 < self.slow_call_rate <= 1, 'above 0 and at most 1')
        self._check('open_s', 0 < self.open_s < math.inf, 'above 0 seconds')
        self._check('open_factor', 1 <= self.open_factor <= 100, 'from 1 to 100')
        self._check('open_max_s', self.open_s <= self.open_max_s < math.inf, 'at least open_s')
        self._check('open_jitter', 0 <= self.open_jitter < 1, 'at least 0 and below 1')
        self._check('probe_lease_s', 0 < self.probe_lease_s < math.inf, 'above 0 seconds')
        self._check(
            'success_threshold', _whole(self.success_threshold), 'a whole number of 1 or more'
        )

    def _check(self, name: str, fits: bool, rule: str) -> None:
        if not fits:
            value = getattr(self, name)
            raise ConfigurationError(f'Circuit setting {name} must be {rule}, not {value!r}.')


def _whole(number: int) -> bool:
    return isinstance(number, int) and number >= 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class CircuitSnapshot:
    """State of a circuit at one point in time, for people and metrics."""

    name: str
    #: ``closed``, ``open`` or ``half-open``.
    state: str
    #: Seconds until the next probe can go; None while closed, or opened by hand without end.
    retry_after: float | None
    #: Shares of failed and of slow calls in this process's window.
    failure_rate: float
    slow_call_rate: float
    calls: int
    #: Code of the error that opened it, ``slow_calls`` or ``by_hand``.
    opened_by: str | None
    #: True if opened by hand; it stays open until it is closed by hand, or for a day if shared.
    manual: bool
    #: Number of trips in quick succession, which lengthen the open period.
    trips: int
