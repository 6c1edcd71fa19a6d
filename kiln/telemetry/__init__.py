"""Metrics and traces: listeners on what kiln does, each behind its own extra.

Neither package is imported before somebody asks for what it does.
"""

from __future__ import annotations

import importlib.util
import os
import sys

from kiln.exceptions import ConfigurationError
from kiln.listeners import Listener


def default_listeners(metrics: bool, tracing: bool | None) -> tuple[Listener, ...]:
    """Return the listeners a process wants, fit for the stacks of all its backends.

    ``tracing=None`` means: where OpenTelemetry is installed and the process
    has set up a tracer provider before this call.

    :raises ConfigurationError: the package of something asked for is missing.
    """
    listeners: list[Listener] = []
    if metrics:
        _require('prometheus_client', 'metrics')
        from kiln.telemetry.prometheus import PrometheusListener

        listeners.append(PrometheusListener())
    if tracing:
        _require('opentelemetry', 'tracing')
    if tracing or (tracing is None and _tracing_is_set_up()):
        from kiln.telemetry.tracing import TracingListener

        listeners.append(TracingListener())
    return tuple(listeners)


def _require(package: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ConfigurationError(
            f'Cannot switch on {extra}: Python package {package!r} is not installed. '
            f"Run: pip install 'kiln-compute[{extra}]'"
        )


def _tracing_is_set_up() -> bool:
    # Who sets up a provider has imported the package or names the provider in
    # the environment; any other process need not pay for the import.
    if 'opentelemetry.trace' not in sys.modules and not _provider_in_environment():
        return False
    from kiln.telemetry.tracing import is_set_up

    return is_set_up()


def _provider_in_environment() -> bool:
    return bool(
        os.environ.get('OTEL_PYTHON_TRACER_PROVIDER') and importlib.util.find_spec('opentelemetry')
    )
