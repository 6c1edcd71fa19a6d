import json
import os
import subprocess
import sys
import unittest

COLLECTOR = 'http://127.0.0.1:4318/v1/traces'


class DefaultListenersTest(unittest.TestCase):
    """Default listeners, each test in its own process to check imports and setup."""

    def listeners(self, call, *, before='', env=None):
        program = (
            'import json, sys\n'
            'from kiln.telemetry import default_listeners\n'
            'from kiln.exceptions import ConfigurationError\n'
            f'{before}\n'
            'try:\n'
            f'    found = [type(one).__name__ for one in default_listeners({call})]\n'
            'except ConfigurationError as exc:\n'
            '    found = str(exc)\n'
            'loaded = [name for name in ("prometheus_client", "opentelemetry.trace")\n'
            '          if sys.modules.get(name)]\n'
            'print(json.dumps([found, loaded]))\n'
        )
        answer = subprocess.run(
            [sys.executable, '-c', program],
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path), **(env or {})},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(answer.stdout)

    def test_without_metrics_and_traces_nothing_is_imported(self):
        self.assertEqual(self.listeners('metrics=False, tracing=False'), [[], []])
        self.assertEqual(self.listeners('metrics=False, tracing=None'), [[], []])

    def test_metrics_can_be_switched_on(self):
        found, loaded = self.listeners('metrics=True, tracing=None')
        self.assertEqual((found, loaded), (['PrometheusListener'], ['prometheus_client']))

    def test_several_backends_can_each_switch_metrics_on(self):
        before = 'default_listeners(metrics=True, tracing=False)'
        found, _ = self.listeners('metrics=True, tracing=False', before=before)
        self.assertEqual(found, ['PrometheusListener'])

    def test_traces_can_be_switched_on(self):
        found, _ = self.listeners('metrics=False, tracing=True')
        self.assertEqual(found, ['TracingListener'])

    def test_an_endpoint_switches_traces_on(self):
        found, _ = self.listeners(f'False, False, endpoint={COLLECTOR!r}')
        self.assertEqual(found, ['TracingListener'])

    def test_traces_are_on_by_default_if_the_process_has_set_up_a_provider(self):
        before = (
            'from opentelemetry import trace\n'
            'from opentelemetry.sdk.trace import TracerProvider\n'
            'trace.set_tracer_provider(TracerProvider())'
        )
        found, _ = self.listeners('metrics=False, tracing=None', before=before)
        self.assertEqual(found, ['TracingListener'])
        found, _ = self.listeners('metrics=False, tracing=False', before=before)
        self.assertEqual(found, [])

    def test_traces_are_on_by_default_if_the_environment_names_a_provider(self):
        found, _ = self.listeners(
            'metrics=False, tracing=None',
            env={'OTEL_PYTHON_TRACER_PROVIDER': 'sdk_tracer_provider'},
        )
        self.assertEqual(found, ['TracingListener'])

    def test_an_import_alone_sets_up_no_traces(self):
        found, _ = self.listeners(
            'metrics=False, tracing=None', before='import opentelemetry.trace'
        )
        self.assertEqual(found, [])

    def test_a_missing_package_is_reported_with_its_extra(self):
        for package, call, extra in (
            ('prometheus_client', 'metrics=True, tracing=None', 'metrics'),
            ('opentelemetry', 'metrics=False, tracing=True', 'tracing'),
            ('opentelemetry.sdk', f'False, None, endpoint={COLLECTOR!r}', 'tracing'),
            ('opentelemetry.exporter', f'False, None, endpoint={COLLECTOR!r}', 'tracing'),
        ):
            with self.subTest(package):
                found, _ = self.listeners(call, before=f'sys.modules[{package!r}] = None')
                self.assertIn(package, found)
                self.assertIn(f"pip install 'kiln-compute[{extra}]'", found)

    def test_optional_traces_do_not_require_the_package(self):
        found, _ = self.listeners(
            'metrics=False, tracing=None',
            before='sys.modules["opentelemetry"] = None',
            env={'OTEL_PYTHON_TRACER_PROVIDER': 'sdk_tracer_provider'},
        )
        self.assertEqual(found, [])
