"""Monitors: utilisation of a cluster, pulled by kiln within a deadline."""

from __future__ import annotations

import abc
import dataclasses
import threading
from collections.abc import Mapping
from typing import ClassVar

from kiln.clock import SYSTEM_CLOCK, Clock, Deadline, deadline_scope
from kiln.cluster_drivers.author_errors import described
from kiln.cluster_drivers.parameters import ParameterType
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster
from kiln.exceptions import told

_LONGEST_REASON = 500


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """Description of one measured value."""

    name: str
    unit: str
    help: str


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """Value of a metric; None means unknown, for the given reason."""

    metric: Metric
    value: float | None
    reason: str = ''


class Monitor(abc.ABC):
    """Measures one cluster."""

    metrics: ClassVar[tuple[Metric, ...]] = ()

    def __init__(self, context: Context, cluster: Cluster) -> None:
        self.context = context
        self.cluster = cluster

    @abc.abstractmethod
    def pull(self) -> Mapping[str, float | None]:
        """Return the value of each metric; a missing metric is unknown.

        Called in a thread of its own, with a deadline: see
        :func:`kiln.clock.current_deadline`. An error makes all values unknown, and
        has no other effect.
        """


class Gauge:
    """Reads a monitor within a deadline and never fails."""

    def __init__(self, monitor: Monitor, *, timeout_s: float = 10.0, clock: Clock = SYSTEM_CLOCK):
        self._monitor, self._timeout_s, self._clock = monitor, timeout_s, clock
        self._changed = threading.Condition()
        self._pull: _Pull | None = None

    @property
    def busy(self) -> bool:
        """True while a pull is running, also a late one."""
        return self._pull is not None

    def read(self) -> tuple[Reading, ...]:
        """Return a reading of each metric, by the deadline at the latest; never raises.

        A late pull continues in its thread, and no other pull starts until it ends: a
        dead cluster costs one thread, however often it is read.
        """
        deadline = Deadline.after(self._timeout_s, self._clock)
        with self._changed:
            if self._pull is not None:
                return self._unknown('the last pull is still running')
            pull = self._pull = _Pull()
            thread = threading.Thread(
                target=self._run, args=(pull, deadline), name='kiln-monitor', daemon=True
            )
            thread.start()
            while not pull.ended:
                left = deadline.remaining_s()
                if left <= 0:
                    return self._unknown(f'it did not answer within {self._timeout_s:g} s')
                self._clock.wait(self._changed, left)
        if pull.reason:
            return self._unknown(pull.reason)
        return tuple(_reading(metric, pull.values) for metric in self._monitor.metrics)

    def _run(self, pull: _Pull, deadline: Deadline) -> None:
        try:
            with deadline_scope(deadline):
                pull.values = dict(self._monitor.pull())
        # An author's code can raise anything, even SystemExit; the reader waits for an end.
        except BaseException as exc:
            pull.reason = told(described(exc), _LONGEST_REASON)
        with self._changed:
            pull.ended = True
            self._pull = None
            self._changed.notify_all()

    def _unknown(self, reason: str) -> tuple[Reading, ...]:
        return tuple(Reading(metric, None, reason) for metric in self._monitor.metrics)


@dataclasses.dataclass(slots=True)
class _Pull:
    values: Mapping[str, object] = dataclasses.field(default_factory=dict)
    reason: str = ''
    ended: bool = False


def _reading(metric: Metric, values: Mapping[str, object]) -> Reading:
    value = values.get(metric.name)
    if value is None:
        return Reading(metric, None, 'it was not measured')
    if not isinstance(value, int | float) or not ParameterType.NUMBER.takes(value):
        return Reading(metric, None, 'the measured value is not a number')
    return Reading(metric, float(value))
