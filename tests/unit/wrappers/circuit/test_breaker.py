import math
import random
import threading
import unittest

import pybreaker

from kiln.clock import clock_time
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call, Traffic
from kiln.exceptions import (
    CircuitOpenError,
    ConfigurationError,
    InstanceNotFoundError,
    RateLimited,
    ServiceTimeout,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.models import ComputeStatus, Limits, State
from kiln.telemetry.events import Listener
from kiln.testing.clock import VirtualClock
from kiln.wrappers.circuit.breaker import BreakerDriver
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.rate import RateDriver, RateSettings

SETTINGS = CircuitSettings(minimum_calls=3, open_s=30, open_jitter=0)


class Backend(AmphoraComputeDriver):
    """Answers, or calls its function with the call."""

    limits = Limits()

    def __init__(self, clock):
        self.clock = clock
        self.name = 'east'
        self.calls = []
        self.act = lambda: None

    def _build(self, request):
        self.calls.append('build')
        self.act()
        return 'id'

    def _delete(self, amphora_id):
        self.calls.append('delete')
        self.act()

    def _get(self, amphora_id):
        raise InstanceNotFoundError('none')

    def _list(self, owner):
        return ()

    def _status(self, amphora_id):
        self.calls.append('status')
        self.act()
        return ComputeStatus(amphora_id=amphora_id, state=State.ACTIVE)

    def _reboot(self, amphora_id, hard):
        raise NotImplementedError


class Ear(Listener):
    def __init__(self):
        self.heard = []

    def circuit_changed(self, backend, traffic, old, new):
        self.heard.append((backend, traffic, old, new))
        raise ZeroDivisionError


def failing(error):
    def act():
        raise error

    return act


class BreakerDriverTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.backend = Backend(self.clock)
        self.driver = BreakerDriver(self.backend, settings=SETTINGS, rng=random.Random(1))

    def break_(self, error=None):
        self.backend.act = failing(error or ServiceTimeout('no answer'))
        for _ in range(3):
            with self.assertRaises(ServiceTimeout):
                self.driver.status('a')
        self.backend.act = lambda: None

    def states(self):
        return {
            traffic: circuit.snapshot().state for traffic, circuit in self.driver.circuits.items()
        }

    def test_a_guarded_driver_returns_what_the_driver_does(self):
        self.assertEqual(State.ACTIVE, self.driver.status('a').state)
        with self.assertRaises(InstanceNotFoundError):
            self.driver.get_amphora(amphora_id='a')

    def test_there_is_one_circuit_for_each_backend_and_kind_of_traffic(self):
        names = [circuit.name for circuit in self.driver.circuits.values()]
        self.assertEqual(['east/read', 'east/build', 'east/change'], names)

    def test_an_open_circuit_refuses_at_once_with_retry_after(self):
        error = ServiceTimeout('no answer')
        self.break_(error)
        asked = len(self.backend.calls)
        with self.assertRaises(CircuitOpenError) as caught:
            self.driver.status('a')
        refusal = caught.exception
        self.assertEqual(asked, len(self.backend.calls))
        self.assertEqual(30, refusal.retry_after)
        self.assertIs(error, refusal.__cause__)
        self.assertEqual(('east', 'status'), (refusal.backend, refusal.operation))

    def test_deletes_and_builds_work_while_reads_fail(self):
        self.break_()
        self.assertEqual({'read': 'open', 'build': 'closed', 'change': 'closed'}, self.states())
        self.driver.delete('a')
        self.assertEqual('id', self.driver.build(name='a'))

    def test_refusal_returns_what_a_call_would_raise_and_takes_no_probe(self):
        self.assertIsNone(self.driver.refusal(Call.STATUS))
        self.break_()
        refusal = self.driver.refusal(Call.STATUS)
        self.assertIsInstance(refusal, CircuitOpenError)
        # A time, not a duration: the text can be read much later.
        again = clock_time(math.ceil(self.clock.time() + 30))
        self.assertIn(f'again at {again}', str(refusal))
        self.assertEqual(
            ('east', 'status', 30), (refusal.backend, refusal.operation, refusal.retry_after)
        )
        self.assertIsNone(self.driver.refusal(Call.DELETE))
        self.clock.advance(30)
        self.assertIsNone(self.driver.refusal(Call.STATUS))
        self.driver.status('a')

    def test_refusal_includes_the_layers_below(self):
        limited = RateDriver(self.backend, settings=RateSettings(rate_per_s=1, burst=1))
        driver = BreakerDriver(limited, settings=SETTINGS)
        driver.status('a')
        self.assertIsInstance(driver.refusal(Call.STATUS), RateLimited)

    def test_a_probe_refused_by_the_rate_limit_is_given_back(self):
        limited = RateDriver(self.backend, settings=RateSettings(rate_per_s=1, burst=1))
        driver = BreakerDriver(limited, settings=SETTINGS)
        driver.circuits[Traffic.READ].trip()
        driver.delete('takes the token')
        driver.circuits[Traffic.READ].half_open()
        with self.assertRaises(RateLimited):
            driver.status('a')
        self.clock.advance(1)
        driver.status('a')
        self.assertEqual('closed', driver.circuits[Traffic.READ].snapshot().state)

    def test_a_missing_ability_does_not_use_the_circuit(self):
        self.driver.circuits[Traffic.CHANGE].isolate()
        with self.assertRaises(UnsupportedOperation):
            self.driver.suspend('a')
        self.assertIsInstance(self.driver.refusal(Call.SUSPEND), UnsupportedOperation)

    def test_an_ability_found_missing_is_not_a_failure(self):
        for _ in range(10):
            with self.assertRaises(UnsupportedOperation):
                self.driver.reboot('a')
        self.assertEqual(0, self.driver.circuits[Traffic.CHANGE].snapshot().calls)

    def test_an_error_that_drivers_must_not_raise_is_a_failure(self):
        self.backend.act = failing(ConfigurationError('surprise'))
        for _ in range(3):
            with self.assertRaises(ConfigurationError):
                self.driver.status('a')
        self.assertEqual('configuration_error', self.driver.refusal(Call.STATUS).__cause__.code)

    def test_an_interrupt_passes_through_and_the_probe_is_given_back(self):
        self.break_()
        self.clock.advance(30)
        self.backend.act = failing(KeyboardInterrupt())
        with self.assertRaises(KeyboardInterrupt):
            self.driver.status('a')
        self.backend.act = lambda: None
        self.driver.status('a')
        self.assertEqual('closed', self.states()[Traffic.READ])

    def test_a_failing_listener_is_notified_and_logged_once(self):
        ear = Ear()
        self.driver = BreakerDriver(self.backend, settings=SETTINGS, listener=ear)
        with self.assertLogs('kiln', 'ERROR') as logs:
            self.break_()
            self.clock.advance(30)
            self.driver.status('a')
        self.assertEqual(
            [
                ('east', 'read', 'closed', 'open'),
                ('east', 'read', 'open', 'half-open'),
                ('east', 'read', 'half-open', 'closed'),
            ],
            ear.heard,
        )
        self.assertEqual(1, len(logs.records))

    def test_half_open_a_hundred_threads_send_one_call(self):
        self.break_()
        self.clock.advance(30)
        self.backend.calls.clear()
        barrier, refused = threading.Barrier(100), threading.Semaphore(0)

        def probe():
            for _ in range(99):
                self.assertTrue(refused.acquire(timeout=120))

        self.backend.act = probe

        def ask():
            barrier.wait()
            try:
                self.driver.status('a')
            except CircuitOpenError:
                refused.release()

        threads = [threading.Thread(target=ask) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual(['status'], self.backend.calls)
        self.assertEqual('closed', self.states()[Traffic.READ])

    def test_calls_run_concurrently(self):
        # No call returns before all have started, so a lock would block this.
        all_are_out = threading.Barrier(64)
        self.backend.act = lambda: all_are_out.wait(120)
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(self.driver.status('a')))
            for _ in range(64)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(64, len(answers))

    def test_each_circuit_gets_its_storage_by_its_name(self):
        made = {}

        def storage(name):
            made[name] = pybreaker.CircuitMemoryStorage('closed')
            return made[name]

        driver = BreakerDriver(self.backend, settings=SETTINGS, storage_factory=storage)
        driver.circuits[Traffic.BUILD].isolate()
        self.assertEqual({'east/read', 'east/build', 'east/change'}, set(made))
        self.assertEqual('open', made['east/build'].state)

    def test_the_error_that_opened_it_is_the_last_and_not_the_first(self):
        errors = [ServiceTimeout('1'), ServiceUnavailable('2'), ServiceTimeout('3')]
        for error in errors:
            self.backend.act = failing(error)
            with self.assertRaises(type(error)):
                self.driver.status('a')
        self.assertIs(errors[2], self.driver.refusal(Call.STATUS).__cause__)
