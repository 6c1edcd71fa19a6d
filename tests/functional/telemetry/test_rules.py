"""The alert rules, as Prometheus' own tool evaluates them."""

import pathlib
import subprocess
import tempfile
import unittest

import yaml

RULES = pathlib.Path(__file__).parents[3] / 'doc/examples/prometheus/kiln-alerts.yaml'
#: Minutes of each test.
MINUTES = 60
#: What there is while nothing is wrong: the values of each series, one a minute.
HEALTHY = {
    'kiln_conductor_clusters{instance="a"}': '3x60',
    'kiln_store_up{instance="a"}': '1x60',
    'kiln_store_schema_current{instance="a"}': '1x60',
    'kiln_work_waiting{instance="a"}': '0x60',
    'kiln_leases{instance="a",state="held"}': '3x60',
    'kiln_leases{instance="a",state="expired"}': '0x60',
    # It is polled each minute.
    'kiln_last_poll_timestamp_seconds{instance="a"}': '0+60x60',
    'kiln_operations_total{instance="a",kind="create",outcome="succeeded"}': '0+1x60',
    'kiln_operations_total{instance="a",kind="create",outcome="failed"}': '0x60',
    'kiln_clusters{instance="a",status="ready"}': '3x60',
    'kiln_clusters{instance="a",status="degraded"}': '0x60',
    'kiln_nodes{instance="a",state="ready"}': '9x60',
    'kiln_nodes{instance="a",state="unhealthy"}': '0x60',
    'kiln_circuit_state{backend="east",traffic="read"}': '0x60',
    'kiln_errors_total{backend="east",code="timeout",outcome="unknown"}': '0x60',
    'kiln_errors_total{backend="east",code="quota",outcome="not_applied"}': '0+1x60',
    'kiln_queue_waiting{backend="east"}': '4x60',
    'kiln_watcher_lag_seconds{backend="east"}': '0.2x60',
}
#: By alert: the series that is different, its values, and when the alert fires; no values are
#: a series that is gone.
WRONG = {
    'KilnNoConductor': ('kiln_conductor_clusters{instance="a"}', '', 10),
    'KilnStoreDown': ('kiln_store_up{instance="a"}', '1x20 0x40', 30),
    'KilnSchemaNotCurrent': ('kiln_store_schema_current{instance="a"}', '1x20 0x40', 30),
    'KilnWorkWaits': ('kiln_work_waiting{instance="a"}', '0x20 2x40', 30),
    'KilnLeasesExpired': ('kiln_leases{instance="a",state="expired"}', '0x20 1x40', 30),
    'KilnPollLate': ('kiln_last_poll_timestamp_seconds{instance="a"}', '0+60x20 1200x40', 40),
    # The first failure counts: the series is born at 0.
    'KilnOperationFailed': (
        'kiln_operations_total{instance="a",kind="create",outcome="failed"}', '0x20 1x40', 25,
    ),
    'KilnClusterFailing': ('kiln_clusters{instance="a",status="degraded"}', '0x20 1x40', 40),
    'KilnNodesUnhealthy': ('kiln_nodes{instance="a",state="unhealthy"}', '0x20 1x40', 40),
    'KilnCircuitOpen': ('kiln_circuit_state{backend="east",traffic="read"}', '0x20 2x40', 30),
    'KilnOutcomeUnknown': (
        'kiln_errors_total{backend="east",code="timeout",outcome="unknown"}', '0x20 1x40', 25,
    ),
    'KilnQueueGrows': ('kiln_queue_waiting{backend="east"}', '4x10 4+1x50', 50),
    'KilnWatcherLate': ('kiln_watcher_lag_seconds{backend="east"}', '0.2x20 90x40', 40),
}  # fmt: skip
#: Troubles that pass by themselves in a few minutes, and one conductor of two that ends.
PASSING = {
    'kiln_store_up{instance="a"}': '1x20 0 1x39',
    'kiln_work_waiting{instance="a"}': '0x20 2x2 0x37',
    'kiln_clusters{instance="a",status="degraded"}': '0x20 1x10 0x29',
    'kiln_nodes{instance="a",state="unhealthy"}': '0x20 1x10 0x29',
    'kiln_circuit_state{backend="east",traffic="read"}': '0x20 2x3 0x36',
    'kiln_conductor_clusters{instance="b"}': '3x20',
    'kiln_last_poll_timestamp_seconds{instance="b"}': '0+60x20',
}


def firing(alert, minute, count):
    """Return the expectation that an alert fires so many times at a minute."""
    query = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    samples = [{'labels': '{}', 'value': count}] if count else []
    return {'expr': query, 'eval_time': f'{minute}m', 'exp_samples': samples}


def case(series, expectations):
    found = [{'series': name, 'values': values} for name, values in series.items() if values]
    return {'interval': '1m', 'input_series': found, 'promql_expr_test': expectations}


class AlertRules(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run(
            ['promtool', *arguments], capture_output=True, text=True, check=False
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def check(self, *cases):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        file = folder / 'test.yaml'
        test = {'rule_files': [str(RULES)], 'evaluation_interval': '1m', 'tests': list(cases)}
        file.write_text(yaml.safe_dump(test))
        self.promtool('test', 'rules', str(file))

    def alerts(self):
        groups = yaml.safe_load(RULES.read_text())['groups']
        return [rule['alert'] for group in groups for rule in group['rules']]

    def test_the_rules_are_valid(self):
        self.assertIn('SUCCESS', self.promtool('check', 'rules', str(RULES)))

    def test_every_alert_fires_for_what_it_is_for(self):
        self.assertEqual(set(self.alerts()), set(WRONG))
        for alert, (series, values, minute) in WRONG.items():
            with self.subTest(alert):
                # No other alert fires for it, and it did not fire before.
                others = [firing(one, minute, 0) for one in WRONG if one != alert]
                before = [firing(alert, 15, 0)] if values else []
                found = HEALTHY | {series: values}
                self.check(case(found, [firing(alert, minute, 1), *before, *others]))

    def test_no_alert_fires_while_nothing_is_wrong_or_trouble_passes(self):
        silence = [firing(alert, minute, 0) for alert in WRONG for minute in range(1, MINUTES)]
        self.check(case(HEALTHY, silence), case(HEALTHY | PASSING, silence))
