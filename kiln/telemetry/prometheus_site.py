"""Prometheus metrics of a site and of the operations on its clusters."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

#: By metric: the values by its labels.
Values = Mapping[str, Mapping[tuple[str, ...], float]]

#: From a check to a fleet on bare metal.
BUCKETS_S = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """A metric whose values are read when it is scraped."""

    name: str
    text: str
    labels: tuple[str, ...] = ()


#: Metrics of the store; each conductor of a site shows the same values.
SITE_FAMILIES = (
    Family('kiln_clusters', 'Clusters, by status.', ('status',)),
    Family('kiln_nodes', 'Nodes that are not gone, by state.', ('state',)),
    Family('kiln_operations_open', 'Operations that have not ended.', ('kind', 'state')),
    Family(
        'kiln_leases',
        'Leases that conductors hold, and leases that expired because their conductor died.',
        ('state',),
    ),
    Family('kiln_work_waiting', 'Clusters with work that no conductor has taken so far.'),
    Family('kiln_store_up', '1 if the store answers, else 0.'),
    Family('kiln_store_size_bytes', 'Size of the database.'),
    Family(
        'kiln_store_schema_info',
        'The revision of the tables, and the one that this version of kiln needs; always 1.',
        ('revision', 'required'),
    ),
    Family('kiln_store_schema_current', '1 if the tables have the required revision, else 0.'),
    Family('kiln_store_census_seconds', 'Duration of the last count of the records of the store.'),
)
#: Metrics of one conductor.
CONDUCTOR_FAMILIES = (
    Family('kiln_conductor_clusters', 'Clusters that this conductor works on.'),
    Family(
        'kiln_last_poll_timestamp_seconds',
        'When this conductor last finished a poll of the settled clusters; absent if another '
        'conductor polls them.',
    ),
)


class OperationMetrics:
    """Counts and times the operations that this process has ended."""

    def __init__(
        self, kinds: tuple[str, ...], outcomes: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        self._ended = Counter(
            'kiln_operations_total',
            'Operations that this conductor has ended, by kind and outcome.',
            ('kind', 'outcome'),
            registry=registry,
        )
        self._seconds = Histogram(
            'kiln_operation_duration_seconds',
            'Time from the submission of an operation to its end.',
            ('kind',),
            buckets=BUCKETS_S,
            registry=registry,
        )
        for kind in kinds:
            self._seconds.labels(kind)
            # Born at 0: an alarm on growth misses the first increase of a series born at 1.
            for outcome in outcomes:
                self._ended.labels(kind, outcome)

    def count(self, kind: str, outcome: str, took_s: float) -> None:
        """Count one operation."""
        self._ended.labels(kind, outcome).inc()
        self._seconds.labels(kind).observe(took_s)


@functools.cache
def operation_metrics(
    kinds: tuple[str, ...], outcomes: tuple[str, ...], registry: CollectorRegistry = REGISTRY
) -> OperationMetrics:
    """Return the metrics of operations; each registry has them once."""
    return OperationMetrics(kinds, outcomes, registry)


class SiteCollector(Collector):
    """Reads the values of a site whenever they are scraped."""

    def __init__(self, values: Callable[[], Values]) -> None:
        self._values = values

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the names, for which no value is read."""
        return [_gauge(family) for family in SITE_FAMILIES + CONDUCTOR_FAMILIES]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield all that has a value now."""
        found = self._values()
        for family in SITE_FAMILIES + CONDUCTOR_FAMILIES:
            if values := found.get(family.name):
                gauge = _gauge(family)
                for labels, value in values.items():
                    gauge.add_metric(labels, value)
                yield gauge


def _gauge(family: Family) -> GaugeMetricFamily:
    return GaugeMetricFamily(family.name, family.text, labels=family.labels)


@contextlib.contextmanager
def exporting(
    values: Callable[[], Values], registry: CollectorRegistry = REGISTRY
) -> Iterator[None]:
    """Export the values of a site while the block lasts."""
    collector = SiteCollector(values)
    registry.register(collector)
    try:
        yield
    finally:
        registry.unregister(collector)
