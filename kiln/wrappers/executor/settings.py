"""Executor settings: plain values."""

from __future__ import annotations

import dataclasses

from kiln.compute_drivers.calls import Traffic
from kiln.exceptions import ConfigurationError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """Limits of concurrency, queue and time, and the pauses between attempts."""

    max_workers: int = 16
    #: Maximum number of threads for each kind of traffic; None stands for all of them, a
    #: half, three quarters. In any case one thread is reserved for each other kind.
    read_workers: int | None = None
    build_workers: int | None = None
    change_workers: int | None = None
    #: Maximum number of operations that wait for a thread or a retry.
    max_queue: int = 10_000
    #: Maximum seconds of one operation until the backend has accepted, queue included.
    timeout_s: float = 60.0
    #: Maximum seconds for the removal of what a failed build left.
    cleanup_timeout_s: float = 600.0
    #: Seconds after which a lost build is looked up once more, because it can arrive late.
    cleanup_grace_s: float = 5.0
    first_delay_s: float = 0.5
    max_delay_s: float = 30.0

    def __post_init__(self) -> None:
        share = f'1 to {self.max_workers} (max_workers)'
        rules = {
            'max_workers': (self.max_workers >= len(Traffic), f'{len(Traffic)} or more'),
            'read_workers': (self._has(self.read_workers), share),
            'build_workers': (self._has(self.build_workers), share),
            'change_workers': (self._has(self.change_workers), share),
            'max_queue': (self.max_queue >= 1, '1 or more'),
            'timeout_s': (self.timeout_s > 0, 'above 0 seconds'),
            'cleanup_timeout_s': (self.cleanup_timeout_s > 0, 'above 0 seconds'),
            'cleanup_grace_s': (self.cleanup_grace_s >= 0, '0 seconds or more'),
            'first_delay_s': (self.first_delay_s > 0, 'above 0 seconds'),
            'max_delay_s': (self.max_delay_s >= self.first_delay_s, 'at least first_delay_s'),
        }
        for name, (fits, rule) in rules.items():
            if not fits:
                value = getattr(self, name)
                raise ConfigurationError(f'Executor setting {name} must be {rule}, not {value!r}.')

    @property
    def shares(self) -> dict[Traffic, int]:
        """Maximum number of threads for each kind of traffic."""
        every = self.max_workers
        return {
            Traffic.READ: self.read_workers or every,
            Traffic.BUILD: self.build_workers or every // 2,
            Traffic.CHANGE: self.change_workers or every * 3 // 4,
        }

    def _has(self, share: int | None) -> bool:
        return share is None or 1 <= share <= self.max_workers
