"""Telemetry: Prometheus metrics and OpenTelemetry traces, each in its own extra.

Their packages are imported only when metrics or traces are switched on.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping

from kiln.exceptions import ConfigurationError
from kiln.telemetry.events import Listener


def default_listeners(
    metrics: bool, tracing: bool | None, *, endpoint: str | None = None, service: str = 'kiln'
) -> tuple[Listener, ...]:
    """Return the listeners of a process, to share among all its backends.

    ``tracing=None`` switches traces on if OpenTelemetry is installed and the process has
    set up a tracer provider before this call.

    :param endpoint: URL of a collector to which kiln itself exports the traces, which
        switches them on; None leaves them to the tracer provider of the process.
    :param service: the name of this process in exported traces.
    :raises ConfigurationError: a required package is not installed, or the URL is wrong.
    """
    listeners: list[Listener] = []
    if metrics:
        _require('prometheus_client', 'metrics')
        from kiln.telemetry.prometheus import PrometheusListener

        listeners.append(PrometheusListener())
    if endpoint is not None:
        listeners.append(_exporting_listener(endpoint, service))
        return tuple(listeners)
    if tracing:
        _require('opentelemetry', 'tracing')
    if tracing or (tracing is None and _tracing_is_set_up()):
        from kiln.telemetry.tracing import TracingListener

        listeners.append(TracingListener())
    return tuple(listeners)


def cluster_export() -> Callable[[str, Mapping[str, float | None]], None]:
    """Return the function that exports what the monitors of clusters measure.

    :raises ConfigurationError: the package for metrics is missing.
    """
    _require('prometheus_client', 'metrics')
    from kiln.telemetry.prometheus import ClusterGauges

    return ClusterGauges().export


def operation_count(
    kinds: Iterable[str], outcomes: Iterable[str]
) -> Callable[[str, str, float], None]:
    """Return the function that counts the operations that this process ends.

    :raises ConfigurationError: the package for metrics is missing.
    """
    _require('prometheus_client', 'metrics')
    from kiln.telemetry.prometheus_site import operation_metrics

    return operation_metrics(tuple(kinds), tuple(outcomes)).count


@contextlib.contextmanager
def exporting_site(
    values: Callable[[], Mapping[str, Mapping[tuple[str, ...], float]]],
) -> Iterator[None]:
    """Export the values of a site, read at each scrape, while the block lasts.

    :raises ConfigurationError: the package for metrics is missing.
    """
    _require('prometheus_client', 'metrics')
    from kiln.telemetry.prometheus_site import exporting

    with exporting(values):
        yield


@contextlib.contextmanager
def serving_metrics(
    listen: str | None, checks: Mapping[str, Callable[[], str]] | None = None
) -> Iterator[str]:
    """Serve all metrics of this process for Prometheus while the block lasts; yield the URL.

    :param listen: 'HOST:PORT'; None serves nothing, and yields an empty text.
    :param checks: by a path such as '/healthz', a function that returns what is wrong.
    :raises ConfigurationError: the package is missing, or the address cannot be used.
    """
    if listen is None:
        yield ''
        return
    _require('prometheus_client', 'metrics')
    from kiln.telemetry.prometheus import serve

    host, _, port = listen.rpartition(':')
    try:
        url, close = serve(host.strip('[]'), int(port), checks or {})
    except (OSError, OverflowError, ValueError) as exc:
        raise ConfigurationError(
            f'Cannot serve metrics at {listen!r}: {exc}. Write metrics_listen as HOST:PORT with '
            f'a free port of this host.'
        ) from exc
    try:
        yield url
    finally:
        close()


def _require(package: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ConfigurationError(
            f'Cannot switch on {extra}: Python package {package!r} is not installed. '
            f"Run: pip install 'kiln-compute[{extra}]'"
        )


def flush_traces() -> None:
    """Export the spans that are left, before the end of the process."""
    if (export := sys.modules.get('kiln.telemetry.tracing_export')) is not None:
        export.flush()


def _exporting_listener(endpoint: str, service: str) -> Listener:
    if not endpoint.startswith(('http://', 'https://')):
        raise ConfigurationError(
            f'Cannot export traces to {endpoint!r}. Write tracing_endpoint as the whole URL of an '
            f'OTLP collector, such as http://127.0.0.1:4318/v1/traces.'
        )
    try:
        from kiln.telemetry.tracing import TracingListener
        from kiln.telemetry.tracing_export import exporting_provider
    except ImportError as exc:
        raise ConfigurationError(
            f'Cannot export traces: Python package {exc.name!r} is not installed. '
            f"Run: pip install 'kiln-compute[tracing]'"
        ) from exc
    return TracingListener(exporting_provider(endpoint, service))


def _tracing_is_set_up() -> bool:
    # A process with a provider has imported the package or names the provider in the
    # environment; other processes should not pay for the import.
    if 'opentelemetry.trace' not in sys.modules and not _provider_in_environment():
        return False
    from kiln.telemetry.tracing import is_set_up

    return is_set_up()


def _provider_in_environment() -> bool:
    return bool(
        os.environ.get('OTEL_PYTHON_TRACER_PROVIDER') and importlib.util.find_spec('opentelemetry')
    )
