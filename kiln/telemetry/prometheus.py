"""Prometheus metrics of calls to backends, circuits, queues and monitors; their server.

Labels are backends, operations, traffic and error codes, all from small fixed sets, and the
names of clusters. IDs are never labels, so the number of series does not grow with use.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    start_http_server,
)

from kiln.exceptions import AmphoraComputeError, KilnError, Outcome
from kiln.telemetry.events import CallRecord, Listener

#: From a cached read to an overloaded backend.
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

_CIRCUIT_VALUES = {'closed': 0, 'half-open': 1}
# Open, and other states that stop calls, such as a circuit isolated manually.
_NOT_PASSABLE = 2
_STATES = ('closed', 'half-open', 'open')


@functools.cache
def _uncertain_codes() -> tuple[str, ...]:
    """Return the codes of kiln's own errors that leave open what is in the backend."""
    kinds, found = [AmphoraComputeError], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith('kiln.') and kind.outcome is Outcome.UNKNOWN:
            found.add(kind.code)
    return tuple(sorted(found))


def _cluster_gauge(registry: CollectorRegistry) -> Gauge:
    text = "A value that the monitor of a cluster's driver measures; absent while it is unknown."
    return Gauge('kiln_cluster_metric', text, ('cluster', 'metric'), registry=registry)


class _Families:
    """The metrics of one registry, in which each name can be registered only once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        self.calls = counter(
            'kiln_calls_total',
            "Calls sent to a backend, by result: 'ok' or the code of the error.",
            'backend', 'operation', 'code',
        )  # fmt: skip
        self.seconds = Histogram(
            'kiln_call_duration_seconds',
            'Duration of calls to a backend, in seconds.',
            ('backend', 'operation'),
            buckets=BUCKETS_S,
            registry=registry,
        )
        self.errors = counter(
            'kiln_errors_total',
            'Failed calls, by code and by outcome in the backend.',
            'backend', 'code', 'outcome',
        )  # fmt: skip
        self.circuit = gauge(
            'kiln_circuit_state',
            'State of the circuit: 0 closed (calls reach the backend), 1 half-open, 2 open.',
            'backend', 'traffic',
        )  # fmt: skip
        self.transitions = counter(
            'kiln_circuit_transitions_total',
            'State changes of a circuit, by new state.',
            'backend', 'traffic', 'to',
        )  # fmt: skip
        self.waiting = gauge('kiln_queue_waiting', 'Operations that wait for a thread.', 'backend')
        self.running = gauge('kiln_queue_running', 'Operations that run in a thread.', 'backend')
        self.builds = gauge(
            'kiln_builds_in_flight', 'Builds that are accepted and not finished.', 'backend'
        )
        self.lag = gauge(
            'kiln_watcher_lag_seconds',
            'Delay of the last poll of a backend, in seconds.',
            'backend',
        )
        self.cluster = _cluster_gauge(registry)
        self.watched = gauge('kiln_watcher_watched', 'Instances that callers wait for.', 'backend')


_families: weakref.WeakKeyDictionary[CollectorRegistry, _Families] = weakref.WeakKeyDictionary()
_families_lock = threading.Lock()


def _families_of(registry: CollectorRegistry) -> _Families:
    with _families_lock:
        if registry not in _families:
            _families[registry] = _Families(registry)
        return _families[registry]


class ClusterGauges:
    """Exports what the monitors of clusters measure."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._gauge = _families_of(REGISTRY if registry is None else registry).cluster
        self._lock = threading.Lock()
        self._shown: dict[str, frozenset[str]] = {}

    def export(self, cluster: str, values: Mapping[str, float | None]) -> None:
        """Set the values of a cluster; an unknown or missing value is not shown."""
        known = {name: value for name, value in values.items() if value is not None}
        with self._lock:
            for name in self._shown.get(cluster, frozenset()) - known.keys():
                self._gauge.remove(cluster, name)
            for name, value in known.items():
                self._gauge.labels(cluster, name).set(value)
            self._shown[cluster] = frozenset(known)


METRICS_PATH = '/metrics'
#: By path: returns what is wrong, or an empty text.
Checks = Mapping[str, Callable[[], str]]


def serve(host: str, port: int, checks: Checks) -> tuple[str, Callable[[], None]]:
    """Serve the metrics of this process; return the URL, and a function that ends it.

    The path of a check has status 200 if nothing is wrong, and else 503 with the reason. Any
    other path than ``/metrics`` has status 404, with the paths that exist.

    :raises OSError: the address cannot be used.
    """
    # Each counter would have a second series, which few servers read.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    server, thread = start_http_server(port, addr=host)
    metrics: Any = server.get_app()

    def application(
        environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        path = environ.get('PATH_INFO', '')
        if path == METRICS_PATH:
            found: Iterable[bytes] = metrics(environ, start_response)
            return found
        if path in checks:
            wrong = checks[path]()
            status, text = ('503 Service Unavailable', wrong) if wrong else ('200 OK', 'ok')
        else:
            status = '404 Not Found'
            text = f'Not found. Use {", ".join([METRICS_PATH, *checks])}.'
        start_response(status, [('Content-Type', 'text/plain; charset=utf-8')])
        return [f'{text}\n'.encode()]

    server.set_app(application)

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    shown = f'[{host}]' if ':' in host else host
    return f'http://{shown}:{server.server_port}{METRICS_PATH}', close


class _CallMeters:
    """Metrics of one operation of one backend, with labels bound once."""

    __slots__ = ('codes', 'ok', 'seconds')

    def __init__(self, families: _Families, backend: str, operation: str) -> None:
        self.seconds = families.seconds.labels(backend, operation)
        self.ok = families.calls.labels(backend, operation, 'ok')
        self.codes: dict[str, Counter] = {}


class PrometheusListener(Listener):
    """Counts and times all calls; listeners on one registry share its metrics.

    The controller must serve the metrics, for instance with
    ``prometheus_client.start_http_server``.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._families = _families_of(REGISTRY if registry is None else registry)
        self._meters: dict[tuple[str, str], _CallMeters] = {}

    def call_finished(self, record: CallRecord) -> None:
        key = (record.backend, record.operation)
        # Two threads can both bind at first; they bind the same children.
        meters = self._meters.get(key) or self._bind(record)
        meters.seconds.observe(record.duration_s)
        if record.error is None:
            meters.ok.inc()
        else:
            self._count_error(meters, record, record.error)

    def circuit_changed(self, backend: str, traffic: str, old: str, new: str) -> None:
        value = _CIRCUIT_VALUES.get(new, _NOT_PASSABLE)
        self._families.circuit.labels(backend, traffic).set(value)
        self._families.transitions.labels(backend, traffic, new).inc()

    def queue_changed(self, backend: str, waiting: int, running: int) -> None:
        self._families.waiting.labels(backend).set(waiting)
        self._families.running.labels(backend).set(running)

    def builds_changed(self, backend: str, in_flight: int) -> None:
        self._families.builds.labels(backend).set(in_flight)

    def ticked(self, backend: str, watched: int, lag_s: float) -> None:
        self._families.watched.labels(backend).set(watched)
        self._families.lag.labels(backend).set(lag_s)

    def _bind(self, record: CallRecord) -> _CallMeters:
        meters = _CallMeters(self._families, record.backend, record.operation)
        self._meters[record.backend, record.operation] = meters
        # A circuit that never changed is closed, but has caused no event.
        self._families.circuit.labels(record.backend, record.traffic)
        # Born at 0: an alarm on growth misses the first increase of a series that is born at 1.
        for state in _STATES:
            self._families.transitions.labels(record.backend, record.traffic, state)
        for code in _uncertain_codes():
            self._families.errors.labels(record.backend, code, Outcome.UNKNOWN.value)
        return meters

    def _count_error(self, meters: _CallMeters, record: CallRecord, error: BaseException) -> None:
        # The code of the class instead of the instance, to bound the number of series.
        code = type(error).code if isinstance(error, KilnError) else 'interrupted'
        outcome = error.outcome if isinstance(error, AmphoraComputeError) else Outcome.UNKNOWN
        counter = meters.codes.get(code)
        if counter is None:
            counter = self._families.calls.labels(record.backend, record.operation, code)
            meters.codes[code] = counter
        counter.inc()
        self._families.errors.labels(record.backend, code, outcome.value).inc()
