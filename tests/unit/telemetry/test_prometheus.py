import pathlib
import re
import threading
import unittest
import urllib.error
import urllib.request

import yaml
from prometheus_client import CollectorRegistry

from kiln.exceptions import (
    BuildOutcomeUnknown,
    InstanceNotFoundError,
    QuotaExceeded,
    ServiceUnavailable,
)
from kiln.telemetry import serving_metrics
from kiln.telemetry.events import CallRecord
from kiln.telemetry.prometheus import BUCKETS_S, ClusterGauges, PrometheusListener
from kiln.telemetry.prometheus_site import (
    CONDUCTOR_FAMILIES,
    SITE_FAMILIES,
    OperationMetrics,
)
from kiln.testing.clock import VirtualClock
from kiln.wrappers.observer import ObserverDriver
from tests.unit.memory_driver import MemoryDriver

RULES = pathlib.Path(__file__).parents[3] / 'doc/examples/prometheus/kiln-alerts.yaml'


class PrometheusTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.registry = CollectorRegistry()
        self.listener = PrometheusListener(self.registry)
        self.clock = VirtualClock()
        self.vendor = MemoryDriver(self.clock)
        self.driver = ObserverDriver(self.vendor, self.listener)

    def value(self, metric, **labels):
        return self.registry.get_sample_value(metric, labels)

    def fail_with(self, error):
        def fail(*_):
            raise error

        self.vendor.on_hook = fail

    def series(self):
        return {
            (sample.name, *sorted(sample.labels.items()))
            for family in self.registry.collect()
            for sample in family.samples
        }

    def test_calls_are_counted_by_backend_operation_and_result(self):
        amphora_id = self.driver.build()
        self.driver.status(amphora_id)
        self.driver.status(amphora_id)
        with self.assertRaises(InstanceNotFoundError):
            self.driver.status('id-9')
        count = self.value
        self.assertEqual(
            count('kiln_calls_total', backend='east', operation='build', code='ok'), 1
        )
        self.assertEqual(
            count('kiln_calls_total', backend='east', operation='status', code='ok'), 2
        )
        self.assertEqual(
            count(
                'kiln_calls_total', backend='east', operation='status', code='instance_not_found'
            ),
            1,
        )

    def test_errors_are_counted_by_code_and_outcome(self):
        for error in (QuotaExceeded('full'), BuildOutcomeUnknown('?'), BuildOutcomeUnknown('?')):
            self.fail_with(error)
            with self.assertRaises(type(error)):
                self.driver.build()
        for code, outcome, count in (
            ('quota_exceeded', 'not_applied', 1),
            ('build_outcome_unknown', 'unknown', 2),
        ):
            labels = {'backend': 'east', 'code': code, 'outcome': outcome}
            self.assertEqual(self.value('kiln_errors_total', **labels), count)

    def test_counters_of_alarms_begin_at_zero_with_the_first_call(self):
        self.driver.build()
        labels = {'backend': 'east', 'code': 'build_outcome_unknown', 'outcome': 'unknown'}
        self.assertEqual(0, self.value('kiln_errors_total', **labels))
        labels = {'backend': 'east', 'traffic': 'build', 'to': 'open'}
        self.assertEqual(0, self.value('kiln_circuit_transitions_total', **labels))

    def test_the_rules_for_alarms_use_metrics_that_exist(self):
        rules = yaml.safe_load(RULES.read_text())['groups']
        OperationMetrics(('create',), ('failed',), self.registry)
        names = {family.name for family in self.registry.collect()}
        names |= {family.name for family in SITE_FAMILIES + CONDUCTOR_FAMILIES}
        found = [rule for group in rules for rule in group['rules']]
        self.assertTrue(found)
        for rule in found:
            self.assertLessEqual({'alert', 'expr', 'annotations'}, set(rule))
            used = set(re.findall(r'kiln_\w+', rule['expr']))
            self.assertTrue(used)
            for name in used:
                self.assertIn(re.sub('_(total|bucket|count|sum)$', '', name), names)

    def test_the_outcome_of_an_error_overrides_that_of_its_class(self):
        from kiln.exceptions import Outcome

        self.fail_with(ServiceUnavailable('went away', outcome=Outcome.UNKNOWN))
        with self.assertRaises(ServiceUnavailable):
            self.driver.delete('id-1')
        labels = {'backend': 'east', 'code': 'service_unavailable', 'outcome': 'unknown'}
        self.assertEqual(self.value('kiln_errors_total', **labels), 1)

    def test_an_interrupted_call_is_counted_too(self):
        self.fail_with(KeyboardInterrupt())
        with self.assertRaises(KeyboardInterrupt):
            self.driver.delete('id-1')
        labels = {'backend': 'east', 'operation': 'delete', 'code': 'interrupted'}
        self.assertEqual(self.value('kiln_calls_total', **labels), 1)

    def test_seconds_fall_into_buckets_from_5_ms_to_2_minutes(self):
        for seconds in (0.004, 0.3, 45, 600):
            self.vendor.on_hook = lambda *_, seconds=seconds: self.clock.advance(seconds)
            self.driver.delete('id-1')
        labels = {'backend': 'east', 'operation': 'delete'}
        for bound, count in (('0.005', 1), ('0.25', 1), ('0.5', 2), ('60.0', 3), ('120.0', 3)):
            self.assertEqual(
                self.value('kiln_call_duration_seconds_bucket', le=bound, **labels), count, bound
            )
        self.assertAlmostEqual(self.value('kiln_call_duration_seconds_sum', **labels), 645.304)
        self.assertEqual((BUCKETS_S[0], BUCKETS_S[-1]), (0.005, 120))

    def test_failed_calls_are_timed_like_others(self):
        self.fail_with(ServiceUnavailable('down'))
        with self.assertRaises(ServiceUnavailable):
            self.driver.delete('id-1')
        self.assertEqual(
            self.value('kiln_call_duration_seconds_count', backend='east', operation='delete'), 1
        )

    def test_the_circuit_is_0_closed_1_half_open_2_open(self):
        labels = {'backend': 'east', 'traffic': 'read'}
        for state, value in (('open', 2), ('half-open', 1), ('closed', 0), ('isolated', 2)):
            self.listener.circuit_changed('east', 'read', '?', state)
            self.assertEqual(self.value('kiln_circuit_state', **labels), value, state)
            self.assertEqual(
                self.value('kiln_circuit_transitions_total', to=state, **labels), 1, state
            )

    def test_a_circuit_that_never_changed_is_shown_closed(self):
        self.driver.delete('id-1')
        labels = {'backend': 'east', 'traffic': 'change'}
        self.assertEqual(self.value('kiln_circuit_state', **labels), 0)

    def test_a_first_call_does_not_show_an_open_circuit_closed(self):
        self.listener.circuit_changed('east', 'change', 'closed', 'open')
        self.driver.delete('id-1')
        labels = {'backend': 'east', 'traffic': 'change'}
        self.assertEqual(self.value('kiln_circuit_state', **labels), 2)

    def test_queue_builds_and_watcher_have_their_current_values(self):
        for factor in (1, 10):
            self.listener.queue_changed('east', 3 * factor, 2 * factor)
            self.listener.builds_changed('east', 5 * factor)
            self.listener.ticked('east', 7 * factor, 0.5 * factor)
        for metric, value in (
            ('kiln_queue_waiting', 30),
            ('kiln_queue_running', 20),
            ('kiln_builds_in_flight', 50),
            ('kiln_watcher_watched', 70),
            ('kiln_watcher_lag_seconds', 5),
        ):
            self.assertEqual(self.value(metric, backend='east'), value, metric)

    def test_a_thousand_instances_make_as_many_series_as_one(self):
        self.driver.delete('id-0')
        few = self.series()
        for i in range(1000):
            self.driver.delete(f'id-{i}')
        self.assertEqual(self.series(), few)

    def test_listeners_on_one_registry_share_its_metrics(self):
        other = ObserverDriver(MemoryDriver(), PrometheusListener(self.registry))
        self.driver.delete('id-1')
        other.delete('id-1')
        labels = {'backend': 'east', 'operation': 'delete', 'code': 'ok'}
        self.assertEqual(self.value('kiln_calls_total', **labels), 2)

    def test_listeners_on_two_registries_share_nothing(self):
        PrometheusListener(CollectorRegistry()).builds_changed('east', 5)
        self.assertIsNone(self.value('kiln_builds_in_flight', backend='east'))

    def test_nothing_is_lost_between_threads(self):
        start = threading.Barrier(8)

        def work():
            start.wait(timeout=120)
            for _ in range(200):
                self.listener.call_finished(CallRecord('east', 'get', 'read', duration_s=0.1))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        labels = {'backend': 'east', 'operation': 'get'}
        self.assertEqual(self.value('kiln_calls_total', code='ok', **labels), 1600)
        self.assertEqual(self.value('kiln_call_duration_seconds_count', **labels), 1600)

    def test_values_of_clusters_are_gauges_and_unknown_values_are_absent(self):
        gauges = ClusterGauges(self.registry)
        gauges.export('web', {'nodes': 3.0, 'heat': None})
        gauges.export('shop', {'nodes': 1.0})

        def value(cluster, name):
            labels = {'cluster': cluster, 'metric': name}
            return self.registry.get_sample_value('kiln_cluster_metric', labels)

        self.assertEqual((3.0, None), (value('web', 'nodes'), value('web', 'heat')))
        gauges.export('web', {})
        self.assertEqual((None, 1.0), (value('web', 'nodes'), value('shop', 'nodes')))


class Serving(unittest.TestCase):
    def test_metrics_are_served_while_the_block_lasts(self):
        PrometheusListener().ticked('served-east', 3, 0.5)
        with serving_metrics('127.0.0.1:0') as url, urllib.request.urlopen(url) as answer:
            text = answer.read().decode()
        self.assertIn('kiln_watcher_watched{backend="served-east"} 3.0', text)
        with self.assertRaises(OSError):
            urllib.request.urlopen(url)

    def test_a_check_has_status_200_or_503_with_the_reason(self):
        checks = {'/healthz': lambda: '', '/readyz': lambda: 'the store is gone'}
        with serving_metrics('127.0.0.1:0', checks) as url:
            base = url.removesuffix('/metrics')
            with urllib.request.urlopen(f'{base}/healthz') as answer:
                self.assertEqual((200, b'ok\n'), (answer.status, answer.read()))
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f'{base}/readyz')
            self.assertEqual(503, caught.exception.code)
            self.assertEqual(b'the store is gone\n', caught.exception.read())
            caught.exception.close()
            with urllib.request.urlopen(url) as answer:
                self.assertIn(b'python_info', answer.read())

    def test_any_other_path_is_not_found_and_names_those_that_exist(self):
        checks = {'/healthz': lambda: '', '/readyz': lambda: ''}
        with serving_metrics('127.0.0.1:0', checks) as url:
            for path in ('', '/', '/health', '/metrics/x'):
                with self.subTest(path), self.assertRaises(urllib.error.HTTPError) as caught:
                    urllib.request.urlopen(url.removesuffix('/metrics') + path)
                self.assertEqual(404, caught.exception.code)
                self.assertIn(b'/metrics, /healthz, /readyz', caught.exception.read())
                caught.exception.close()

    def test_without_an_address_nothing_is_served(self):
        with serving_metrics(None) as url:
            self.assertEqual('', url)
