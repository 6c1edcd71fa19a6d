"""Export of traces over OTLP, for programs that set up no tracer provider of their own."""

from __future__ import annotations

import functools
import logging

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

#: Seconds until the collector must have answered; a command can end this much later.
_TIMEOUT_S = 3.0


# A command without a log shows nothing of a collector that does not answer.
logging.getLogger('opentelemetry').addHandler(logging.NullHandler())
_opened: list[TracerProvider] = []


@functools.cache
def exporting_provider(endpoint: str, service: str) -> TracerProvider:
    """Return the provider that exports to a collector, one for all backends of a process."""
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service}))
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_TIMEOUT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    _opened.append(provider)
    return provider


def flush() -> None:
    """Export the spans that are left; blocks for some seconds where no collector answers."""
    for provider in _opened:
        provider.force_flush()
