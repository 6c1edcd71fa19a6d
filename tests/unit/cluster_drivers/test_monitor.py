"""Monitors of clusters: errors and late pulls do not affect the caller."""

import threading
import unittest

from kiln.clock import current_deadline
from kiln.cluster_drivers.monitor import Gauge, Metric, Monitor, Reading
from kiln.testing.clock import VirtualClock
from tests.unit.cluster_drivers.samples import cluster, context

CPU = Metric('cpu', '%', 'All nodes.')
RAM = Metric('ram', 'MiB', 'In use.')


class Scripted(Monitor):
    """Returns the given answer, or the result of the given function."""

    metrics = (CPU, RAM)

    def __init__(self, answer):
        super().__init__(context(), cluster())
        self.answer = answer

    def pull(self):
        return self.answer() if callable(self.answer) else self.answer


class Gauges(unittest.TestCase):
    def readings(self, answer, **options):
        return Gauge(Scripted(answer), **options).read()

    def reasons(self, answer):
        return {one.reason for one in self.readings(answer) if one.value is None}

    def test_001_21_each_metric_is_read(self):
        self.assertEqual(
            (Reading(CPU, 12.0), Reading(RAM, 3.5)), self.readings({'cpu': 12, 'ram': 3.5, 'x': 1})
        )

    def test_000_13_an_unknown_metric_has_a_reason_and_the_others_have_values(self):
        for answer in ({'cpu': 1, 'ram': None}, {'cpu': 1}):
            cpu, ram = self.readings(answer)
            self.assertEqual((1.0, ''), (cpu.value, cpu.reason))
            self.assertEqual((None, 'it was not measured'), (ram.value, ram.reason))
        for wrong in ('12', True, float('nan'), [1]):
            cpu, ram = self.readings({'cpu': wrong, 'ram': 1})
            self.assertEqual((None, 'the measured value is not a number'), (cpu.value, cpu.reason))
            self.assertEqual(1.0, ram.value)

    def test_000_13_an_error_makes_all_metrics_unknown_and_is_not_raised(self):
        def fail():
            raise OSError('no route, token=hunter2')

        (reason,) = self.reasons(fail)
        self.assertRegex(reason, r'^OSError: no route, token=\*\*\* \(.*test_monitor.py:[0-9]+\)$')
        self.assertEqual(1, len(self.reasons(7)), 'an answer that is not a mapping')

    def test_000_13_a_late_pull_is_abandoned_and_no_second_pull_starts_beside_it(self):
        clock = VirtualClock()
        begun, readings = [], []
        started, release = threading.Event(), threading.Event()
        self.addCleanup(release.set)

        def hang():
            begun.append(current_deadline().remaining_s())
            started.set()
            release.wait(120)
            return {'cpu': 1, 'ram': 1}

        gauge = Gauge(Scripted(hang), timeout_s=5.0, clock=clock)
        reader = threading.Thread(target=lambda: readings.extend(gauge.read()))
        reader.start()
        self.assertTrue(started.wait(120))
        clock.run_until(lambda: readings)
        reader.join()
        self.assertEqual({'it did not answer within 5 s'}, {one.reason for one in readings})
        for _ in range(3):
            self.assertEqual(
                {'the last pull is still running'}, {one.reason for one in gauge.read()}
            )
        self.assertEqual([5.0], begun)
        late = [one for one in threading.enumerate() if one.name == 'kiln-monitor']
        release.set()
        for thread in late:
            thread.join(120)
        self.assertEqual((Reading(CPU, 1.0), Reading(RAM, 1.0)), gauge.read())
