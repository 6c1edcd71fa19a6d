"""A span for each call to a backend; the only home of opentelemetry."""

from __future__ import annotations

from opentelemetry import context, trace

from kiln.exceptions import AmphoraComputeError, KilnError, Verdict
from kiln.listeners import CallRecord, Listener

_NOTE = 'kiln.telemetry.tracing'


def is_set_up() -> bool:
    """Whether this process has a tracer provider of its own choice."""
    provider = trace.get_tracer_provider()
    return not isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)


class TracingListener(Listener):
    """Makes a span of each call, below the span its operation was asked in.

    The span is current while the call runs, so what the driver's own client
    library records hangs below it.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer('kiln', tracer_provider=provider)

    def call_started(self, record: CallRecord) -> None:
        """Begin the span and make it current on this thread."""
        attributes = {'kiln.backend': record.backend, 'kiln.traffic': record.traffic}
        if record.subject:
            attributes['kiln.subject'] = record.subject
        span = self._tracer.start_span(
            f'kiln.{record.operation}', kind=trace.SpanKind.CLIENT, attributes=attributes
        )
        token = context.attach(trace.set_span_in_context(span))
        record.notes[_NOTE] = (span, token)

    def call_finished(self, record: CallRecord) -> None:
        """End the span with what became of the call."""
        if _NOTE not in record.notes:
            # A listener is told of the end even where its start went wrong.
            return
        span, token = record.notes.pop(_NOTE)
        context.detach(token)
        if record.error is not None:
            _describe(span, record.error)
        span.end()


def _describe(span: trace.Span, error: BaseException) -> None:
    # Not record_exception(): it stores the text of the whole chain of causes,
    # and what a foreign error quotes is nobody's promise.
    code = type(error).code if isinstance(error, KilnError) else type(error).__name__
    span.set_attribute('error.type', code)
    if isinstance(error, AmphoraComputeError):
        span.set_attribute('kiln.outcome', error.outcome.value)
        span.set_attribute('kiln.retryable', error.retryable)
        if error.circuit is Verdict.SUCCESS:
            # 'There is none' is an answer, not a fault of the call.
            return
    text = str(error) if isinstance(error, KilnError) else code
    span.set_status(trace.Status(trace.StatusCode.ERROR, text))
