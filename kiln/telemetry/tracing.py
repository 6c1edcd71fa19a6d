"""OpenTelemetry spans of backend calls; the only module that imports it."""

from __future__ import annotations

from opentelemetry import context, trace

from kiln.exceptions import AmphoraComputeError, KilnError, Verdict
from kiln.telemetry.events import CallRecord, Listener

_NOTE = 'kiln.telemetry.tracing'


def is_set_up() -> bool:
    """Return True if this process has set up a tracer provider."""
    provider = trace.get_tracer_provider()
    return not isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)


class TracingListener(Listener):
    """Creates a span for each call, as a child of the span that submitted its operation.

    The span is current during the call, so spans of the driver's client library become
    its children.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer('kiln', tracer_provider=provider)

    def call_started(self, record: CallRecord) -> None:
        attributes = {'kiln.backend': record.backend, 'kiln.traffic': record.traffic}
        if record.subject:
            attributes['kiln.subject'] = record.subject
        span = self._tracer.start_span(
            f'kiln.{record.operation}', kind=trace.SpanKind.CLIENT, attributes=attributes
        )
        token = context.attach(trace.set_span_in_context(span))
        record.notes[_NOTE] = (span, token)

    def call_finished(self, record: CallRecord) -> None:
        if _NOTE not in record.notes:
            # A listener is notified of the end even if its call_started failed.
            return
        span, token = record.notes.pop(_NOTE)
        context.detach(token)
        if record.error is not None:
            _describe(span, record.error)
        span.end()


def _describe(span: trace.Span, error: BaseException) -> None:
    # Not record_exception(): it stores the texts of all causes, and errors of other
    # libraries can contain anything.
    code = type(error).code if isinstance(error, KilnError) else type(error).__name__
    span.set_attribute('error.type', code)
    if isinstance(error, AmphoraComputeError):
        span.set_attribute('kiln.outcome', error.outcome.value)
        span.set_attribute('kiln.retryable', error.retryable)
        if error.circuit is Verdict.SUCCESS:
            # 'Not found' is a valid answer, not a failed call.
            return
    text = str(error) if isinstance(error, KilnError) else code
    span.set_status(trace.Status(trace.StatusCode.ERROR, text))
