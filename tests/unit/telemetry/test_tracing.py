import contextvars
import threading
import unittest

from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from kiln.exceptions import (
    AmphoraComputeError,
    InstanceNotFoundError,
    QuotaExceeded,
    ServiceTimeout,
)
from kiln.telemetry.events import CallRecord
from kiln.telemetry.tracing import TracingListener
from kiln.wrappers.observer import ObserverDriver
from tests.unit.memory_driver import MemoryDriver


class TracingTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.addCleanup(self.provider.shutdown)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.vendor = MemoryDriver()
        self.driver = ObserverDriver(self.vendor, TracingListener(self.provider))

    def span(self):
        (span,) = self.exporter.get_finished_spans()
        return span

    def fail_with(self, error):
        def fail(*_):
            raise error

        self.vendor.on_hook = fail

    def test_a_call_is_a_span_with_backend_traffic_and_subject(self):
        self.driver.delete('id-1')
        span = self.span()
        self.assertEqual((span.name, span.kind), ('kiln.delete', SpanKind.CLIENT))
        self.assertEqual(
            dict(span.attributes),
            {'kiln.backend': 'east', 'kiln.traffic': 'change', 'kiln.subject': 'id-1'},
        )
        self.assertIs(span.status.status_code, StatusCode.UNSET)

    def test_a_call_without_a_subject_has_no_subject_attribute(self):
        self.driver.check()
        self.assertNotIn('kiln.subject', self.span().attributes)

    def test_an_error_is_recorded_with_code_outcome_and_message(self):
        self.fail_with(QuotaExceeded('Cannot build: 10 of 10 used.'))
        with self.assertRaises(QuotaExceeded):
            self.driver.build()
        span = self.span()
        self.assertEqual(span.attributes['error.type'], 'quota_exceeded')
        self.assertEqual(span.attributes['kiln.outcome'], 'not_applied')
        self.assertIs(span.attributes['kiln.retryable'], False)
        self.assertIs(span.status.status_code, StatusCode.ERROR)
        self.assertEqual(span.status.description, 'Cannot build: 10 of 10 used.')

    def test_a_negative_answer_is_recorded_but_not_as_an_error(self):
        with self.assertRaises(InstanceNotFoundError):
            self.driver.status('id-9')
        self.assertEqual(self.span().attributes['error.type'], 'instance_not_found')
        self.assertIs(self.span().status.status_code, StatusCode.UNSET)

    def test_an_interrupt_is_recorded_by_its_type_only(self):
        self.fail_with(KeyboardInterrupt('whatever'))
        with self.assertRaises(KeyboardInterrupt):
            self.driver.delete('id-1')
        self.assertEqual(self.span().attributes['error.type'], 'KeyboardInterrupt')
        self.assertEqual(self.span().status.description, 'KeyboardInterrupt')

    def test_the_causes_of_an_error_are_not_recorded(self):
        self.fail_with(ValueError('body: {"user_data": "..."}'))
        with self.assertRaises(AmphoraComputeError):
            self.driver.delete('id-1')
        self.assertEqual(self.span().events, ())

    def test_the_span_is_a_child_of_the_span_of_the_caller(self):
        with self.provider.get_tracer('test').start_as_current_span('flow') as flow:
            self.driver.delete('id-1')
        span, outer = self.exporter.get_finished_spans()
        self.assertEqual(outer.name, 'flow')
        self.assertEqual(span.parent.span_id, flow.get_span_context().span_id)

    def test_the_span_is_a_child_in_a_thread_with_the_context_of_the_caller(self):
        with self.provider.get_tracer('test').start_as_current_span('flow') as flow:
            carried = contextvars.copy_context()
        worker = threading.Thread(target=carried.run, args=(self.driver.delete, 'id-1'))
        worker.start()
        worker.join(timeout=120)
        span = next(s for s in self.exporter.get_finished_spans() if s.name == 'kiln.delete')
        self.assertEqual(span.parent.span_id, flow.get_span_context().span_id)

    def test_spans_of_the_client_library_are_children_of_the_span(self):
        def client_library(*_):
            with self.provider.get_tracer('requests').start_as_current_span('DELETE /servers'):
                pass

        self.vendor.on_hook = client_library
        self.driver.delete('id-1')
        inner, outer = self.exporter.get_finished_spans()
        self.assertEqual((inner.name, outer.name), ('DELETE /servers', 'kiln.delete'))
        self.assertEqual(inner.parent.span_id, outer.context.span_id)

    def test_the_context_of_the_caller_is_restored_after_the_call(self):
        before = context.get_current()
        self.driver.delete('id-1')
        self.fail_with(ServiceTimeout('silence'))
        with self.assertRaises(ServiceTimeout):
            self.driver.delete('id-1')
        self.assertEqual(context.get_current(), before)
        self.assertIs(trace.get_current_span(), trace.INVALID_SPAN)

    def test_an_end_without_a_start_is_ignored(self):
        TracingListener(self.provider).call_finished(CallRecord('east', 'get', 'read'))
        self.assertEqual(self.exporter.get_finished_spans(), ())
