import asyncio
import dataclasses
import logging
import random
import threading
import unittest

import pybreaker

from kiln.exceptions import (
    CircuitOpenError,
    InstanceNotFoundError,
    QuotaExceeded,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.testing.clock import VirtualClock
from kiln.wrappers.circuit import Circuit
from kiln.wrappers.circuit_settings import CircuitSettings

SETTINGS = CircuitSettings(
    failure_rate=0.5,
    minimum_calls=4,
    window_s=60,
    open_s=30,
    open_factor=2,
    open_max_s=100,
    open_jitter=0,
    probe_lease_s=10,
)


class Recorder(pybreaker.CircuitBreakerListener):
    def __init__(self):
        self.changes = []
        self.words = []
        self.lock_was_free = []

    def before_call(self, cb, func, *args, **kwargs):
        self.words.append('before')

    def failure(self, cb, exc):
        self.words.append(type(exc).__name__)

    def success(self, cb):
        self.words.append('success')

    def state_change(self, cb, old_state, new_state):
        self.changes.append((old_state.name, new_state.name))
        other = threading.Thread(target=self.try_lock, args=[cb._lock])
        other.start()
        other.join()

    def try_lock(self, lock):
        self.lock_was_free.append(lock.acquire(blocking=False))
        if self.lock_was_free[-1]:
            lock.release()


class CircuitCase(unittest.TestCase):
    settings = SETTINGS

    def setUp(self):
        self.clock = VirtualClock()
        self.recorder = Recorder()
        self.circuit = self.make()

    def make(self, **changes):
        return Circuit(
            'east/read',
            settings=dataclasses.replace(self.settings, **changes),
            clock=self.clock,
            listeners=[self.recorder],
            rng=random.Random(7),
        )

    def pass_(self, error=None, *, circuit=None, takes=0.0):
        circuit = circuit or self.circuit
        ticket = circuit.admit()
        if takes:
            self.clock.advance(takes)
        circuit.settle(ticket, error)

    def break_(self, circuit=None):
        error = ServiceTimeout('no answer')
        while (circuit or self.circuit).refusal() is None:
            self.pass_(error, circuit=circuit)
        return error

    def assert_state(self, state, circuit=None):
        self.assertEqual(state, (circuit or self.circuit).snapshot().state)


class ClosedCircuitTest(CircuitCase):
    def test_it_stays_closed_below_the_minimum_of_calls(self):
        for _ in range(3):
            self.pass_(ServiceTimeout('no answer'))
        self.assert_state('closed')
        self.pass_(ServiceTimeout('no answer'))
        self.assert_state('open')

    def test_it_opens_on_a_rate_and_not_on_failures_in_a_row(self):
        for error in (None, ServiceTimeout('x'), None, ServiceTimeout('x')):
            self.pass_(error)
        self.assert_state('open')

    def test_it_stays_closed_below_the_rate(self):
        for _ in range(50):
            self.pass_()
            self.pass_()
            self.pass_(ServiceTimeout('x'))
        self.assert_state('closed')
        self.assertAlmostEqual(1 / 3, self.circuit.snapshot().failure_rate)

    def test_a_success_never_trips_even_where_it_completes_the_minimum(self):
        for _ in range(3):
            self.pass_(ServiceTimeout('x'))
        self.pass_()
        self.assert_state('closed')

    def test_failures_older_than_the_window_are_forgotten(self):
        for _ in range(3):
            self.pass_(ServiceTimeout('x'))
        self.clock.advance(60)
        self.pass_(ServiceTimeout('x'))
        self.assert_state('closed')
        self.assertEqual(1, self.circuit.fail_counter)

    def test_neutral_outcomes_neither_count_nor_wipe(self):
        for _ in range(3):
            self.pass_(ServiceTimeout('x'))
        for _ in range(50):
            self.pass_(QuotaExceeded('no more'))
        self.assertEqual(3, self.circuit.snapshot().calls)
        self.pass_(ServiceTimeout('x'))
        self.assert_state('open')

    def test_interleaved_not_founds_neither_trip_nor_heal(self):
        for _ in range(50):
            self.pass_(InstanceNotFoundError('gone'))
        self.assert_state('closed')
        for _ in range(4):
            self.assert_state('closed')
            self.pass_(ServiceTimeout('x'))
            for _ in range(50):
                if self.circuit.refusal() is None:
                    self.pass_(InstanceNotFoundError('gone'))
        self.assert_state('open')

    def test_interrupts_and_cancelled_tasks_are_no_outcome(self):
        for _ in range(20):
            self.pass_(KeyboardInterrupt())
            self.pass_(SystemExit())
            self.pass_(asyncio.CancelledError())
        self.assertEqual(0, self.circuit.snapshot().calls)

    def test_an_error_that_is_not_kilns_is_a_failure(self):
        for _ in range(4):
            self.pass_(ZeroDivisionError())
        self.assertEqual('ZeroDivisionError', self.circuit.snapshot().opened_by)

    def test_an_error_excluded_the_pybreaker_way_is_neutral(self):
        self.circuit.add_excluded_exception(KeyError)
        for _ in range(3):
            self.pass_(ServiceTimeout('x'))
        self.pass_(KeyError('x'))
        self.assertEqual(3, self.circuit.snapshot().calls)

    def test_a_step_of_the_wall_clock_changes_nothing(self):
        self.break_()
        self.clock.step(-3600)
        self.clock.advance(29)
        self.assertIsNotNone(self.circuit.refusal())
        self.clock.step(7200)
        self.assertIsNotNone(self.circuit.refusal())
        self.clock.advance(1)
        self.assertIsNone(self.circuit.refusal())


class SlowCallTest(CircuitCase):
    def setUp(self):
        super().setUp()
        self.circuit = self.make(slow_call_s=5, slow_call_rate=0.5)

    def test_too_many_slow_calls_open_it_though_they_succeed(self):
        for takes in (1, 5, 1, 4, 5):
            self.pass_(takes=takes)
        self.assert_state('closed')
        self.pass_(takes=5)
        snapshot = self.circuit.snapshot()
        self.assertEqual(('open', 'slow_calls'), (snapshot.state, snapshot.opened_by))
        self.assertEqual((0.0, 0.5), (snapshot.failure_rate, snapshot.slow_call_rate))
        with self.assertRaises(CircuitOpenError) as caught:
            self.circuit.admit()
        self.assertIsNone(caught.exception.__cause__)

    def test_a_slow_probe_is_no_recovery(self):
        self.break_()
        self.clock.advance(30)
        self.pass_(takes=5)
        self.assert_state('open')
        self.assertEqual(2, self.circuit.snapshot().trips)

    def test_slowness_is_ignored_where_no_limit_is_set(self):
        circuit = self.make()
        for _ in range(10):
            self.pass_(circuit=circuit, takes=50)
        self.assert_state('closed', circuit)


class OpenCircuitTest(CircuitCase):
    def test_a_refusal_says_where_when_and_why(self):
        error = self.break_()
        self.clock.advance(10)
        with self.assertRaises(CircuitOpenError) as caught:
            self.circuit.admit()
        refusal = caught.exception
        self.assertEqual(20, refusal.retry_after)
        self.assertIs(error, refusal.__cause__)
        self.assertIn('east/read', str(refusal))
        self.assertIn('service_timeout', str(refusal))
        self.assertTrue(refusal.retryable)

    def test_peeking_says_the_same_and_takes_no_probe(self):
        self.assertIsNone(self.circuit.refusal())
        self.break_()
        self.assertEqual(30, self.circuit.refusal().retry_after)
        self.clock.advance(30)
        for _ in range(3):
            self.assertIsNone(self.circuit.refusal())
        self.assert_state('open')
        self.circuit.admit()
        self.assertIsNotNone(self.circuit.refusal())

    def test_a_result_from_before_the_trip_settles_nothing(self):
        late = self.circuit.admit()
        self.break_()
        self.circuit.settle(late)
        self.assert_state('open')
        self.clock.advance(30)
        self.pass_()
        self.circuit.settle(late, ServiceTimeout('x'))
        self.assert_state('closed')
        self.assertEqual(0, self.circuit.snapshot().calls)

    def periods(self, circuit, trips):
        found = []
        for _ in range(trips):
            found.append(circuit.refusal().retry_after)
            self.clock.advance(found[-1])
            self.pass_(ServiceTimeout('x'), circuit=circuit)
        return found

    def test_each_failed_probe_lengthens_the_open_period_up_to_its_maximum(self):
        self.break_()
        for period, expected in zip(
            self.periods(self.circuit, 5), (30, 60, 100, 100, 100), strict=True
        ):
            self.assertAlmostEqual(expected, period)

    def test_jitter_shortens_periods_and_can_be_repeated_by_its_seed(self):
        runs = []
        for _ in range(2):
            circuit = self.make(open_jitter=0.2)
            self.break_(circuit)
            runs.append(self.periods(circuit, 8))
        for period in runs[0][2:]:
            self.assertTrue(80 < period <= 100, period)
        self.assertGreater(len(set(runs[0])), 6)
        for first, second in zip(*runs, strict=True):
            self.assertAlmostEqual(first, second)

    def test_tripping_again_soon_after_closing_continues_the_back_off(self):
        self.break_()
        self.clock.advance(30)
        self.pass_()
        self.clock.advance(59)
        self.break_()
        self.assertAlmostEqual(60, self.circuit.refusal().retry_after)

    def test_a_window_in_good_health_forgives_earlier_trips(self):
        self.break_()
        self.clock.advance(30)
        self.pass_()
        self.clock.advance(60)
        self.break_()
        self.assertAlmostEqual(30, self.circuit.refusal().retry_after)

    def test_a_thousand_trips_do_not_overflow(self):
        circuit = self.make(open_factor=100, open_max_s=1e9)
        self.break_(circuit)
        for _ in range(1000):
            circuit.trip()
        self.assertEqual(1e9, circuit.refusal().retry_after)


class HalfOpenCircuitTest(CircuitCase):
    def setUp(self):
        super().setUp()
        self.break_()
        self.clock.advance(30)

    def test_a_good_probe_closes_it_and_the_old_failures_are_forgotten(self):
        self.pass_()
        self.assert_state('closed')
        self.pass_(ServiceTimeout('x'))
        snapshot = self.circuit.snapshot()
        self.assertEqual(('closed', 1, None), (snapshot.state, snapshot.calls, snapshot.opened_by))

    def test_a_clear_answer_such_as_not_found_closes_it_too(self):
        self.pass_(InstanceNotFoundError('gone'))
        self.assert_state('closed')

    def test_a_failed_probe_opens_it_with_its_own_cause(self):
        error = ServiceUnavailable('still down')
        self.pass_(error)
        self.assertIs(error, self.circuit.refusal().__cause__)

    def test_a_hundred_threads_send_one_probe_and_the_rest_is_refused_at_once(self):
        calls, refusals, lock = [], [], threading.Lock()
        barrier, release = threading.Barrier(100), threading.Event()

        def ask():
            barrier.wait()
            try:
                ticket = self.circuit.admit()
            except CircuitOpenError as exc:
                with lock:
                    refusals.append(exc)
                    if len(refusals) == 99:
                        release.set()
                return
            with lock:
                calls.append(ticket)
            release.wait(10)
            self.circuit.settle(ticket)

        threads = [threading.Thread(target=ask) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.assertEqual((1, 99), (len(calls), len(refusals)))
        self.assertEqual({1.0}, {refusal.retry_after for refusal in refusals})
        self.assert_state('closed')

    def test_who_comes_too_late_for_the_probe_follows_what_came_of_it(self):
        class MeddlingClock(VirtualClock):
            meddle = None

            def monotonic(self):
                meddle, self.meddle = self.meddle, None
                if meddle:
                    meddle()
                return super().monotonic()

        clock = MeddlingClock()
        circuit = Circuit('a', settings=SETTINGS, clock=clock)
        circuit.trip()
        clock.advance(30)
        clock.meddle = circuit.close
        circuit.settle(circuit.admit())
        self.assertEqual(1, circuit.snapshot().calls)
        circuit.trip()
        clock.advance(30)
        clock.meddle = circuit.admit
        with self.assertRaises(CircuitOpenError):
            circuit.admit()

    def test_a_neutral_probe_gives_its_permit_back(self):
        for error in (QuotaExceeded('x'), KeyboardInterrupt(), asyncio.CancelledError()):
            with self.subTest(error=error):
                self.pass_(error)
                self.assert_state('half-open')
        self.assertIsNone(self.circuit.refusal())
        self.pass_()
        self.assert_state('closed')

    def test_a_hung_probe_cannot_wedge_it(self):
        hung = self.circuit.admit()
        self.clock.advance(9.5)
        self.assertAlmostEqual(0.5, self.circuit.refusal().retry_after)
        self.clock.advance(0.5)
        second = self.circuit.admit()
        self.circuit.settle(hung, ServiceTimeout('x'))
        self.assert_state('half-open')
        self.assertIsNotNone(self.circuit.refusal())
        self.circuit.settle(second)
        self.assert_state('closed')
        self.circuit.settle(hung, ServiceTimeout('x'))
        self.assertEqual(0, self.circuit.snapshot().calls)

    def test_a_probe_settles_once(self):
        ticket = self.circuit.admit()
        self.circuit.settle(ticket, QuotaExceeded('x'))
        self.circuit.settle(ticket)
        self.assert_state('half-open')

    def test_a_result_after_its_lease_still_counts_while_nobody_probes(self):
        ticket = self.circuit.admit()
        self.clock.advance(11)
        self.circuit.settle(ticket)
        self.assert_state('closed')

    def test_several_good_probes_in_a_row_may_be_asked_for(self):
        circuit = self.make(success_threshold=3)
        self.break_(circuit)
        self.clock.advance(30)
        self.pass_(circuit=circuit)
        self.pass_(QuotaExceeded('x'), circuit=circuit)
        self.pass_(circuit=circuit)
        self.assertEqual(2, circuit.success_counter)
        self.assert_state('half-open', circuit)
        self.pass_(circuit=circuit)
        self.assert_state('closed', circuit)

    def test_a_failure_between_good_probes_starts_them_anew(self):
        circuit = self.make(success_threshold=2)
        self.break_(circuit)
        self.clock.advance(30)
        self.pass_(circuit=circuit)
        self.pass_(ServiceTimeout('x'), circuit=circuit)
        self.assertEqual(0, circuit.success_counter)
        self.clock.advance(60)
        self.pass_(circuit=circuit)
        self.assert_state('half-open', circuit)


class HandTest(CircuitCase):
    def test_isolated_it_stays_open_until_closed_by_hand(self):
        for isolate in (self.circuit.isolate, self.circuit.open):
            isolate()
            self.clock.advance(1e9)
            with self.assertRaises(CircuitOpenError) as caught:
                self.circuit.admit()
            refusal = caught.exception
            self.assertIsNone(refusal.retry_after)
            self.assertFalse(refusal.retryable)
            self.assertIn('by hand', str(refusal))
            snapshot = self.circuit.snapshot()
            self.assertEqual((True, None), (snapshot.manual, snapshot.retry_after))
            self.assertEqual('by_hand', snapshot.opened_by)
            self.circuit.close()
            self.pass_()

    def test_isolating_ends_what_is_under_way(self):
        ticket = self.circuit.admit()
        self.circuit.isolate()
        self.circuit.settle(ticket)
        self.assertTrue(self.circuit.snapshot().manual)

    def test_tripped_by_hand_it_opens_for_the_normal_period(self):
        self.circuit.trip()
        self.assertEqual(30, self.circuit.refusal().retry_after)
        self.assertEqual('by_hand', self.circuit.snapshot().opened_by)

    def test_tripped_with_a_cause_it_says_the_cause(self):
        self.circuit.trip(ServiceTimeout('x'))
        self.assertEqual('service_timeout', self.circuit.snapshot().opened_by)

    def test_half_opened_by_hand_it_probes_at_once(self):
        self.circuit.isolate()
        self.circuit.half_open()
        self.circuit.admit()
        self.assertIsNotNone(self.circuit.refusal())

    def test_closing_by_hand_forgets_failures_and_trips(self):
        self.pass_(ServiceTimeout('x'))
        self.circuit.close()
        self.assertEqual(0, self.circuit.snapshot().calls)
        self.break_()
        self.circuit.close()
        self.break_()
        self.assertEqual(30, self.circuit.refusal().retry_after)

    def test_a_snapshot_shows_all_there_is(self):
        self.pass_()
        self.break_()
        snapshot = self.circuit.snapshot()
        self.assertEqual(
            ('east/read', 'open', 30, 'service_timeout', False, 1),
            (
                snapshot.name,
                snapshot.state,
                snapshot.retry_after,
                snapshot.opened_by,
                snapshot.manual,
                snapshot.trips,
            ),
        )
        self.assertEqual((4, 0.75), (snapshot.calls, snapshot.failure_rate))
        self.clock.advance(40)
        self.assertEqual(0.0, self.circuit.snapshot().retry_after)


class PybreakerTest(CircuitCase):
    """What users of pybreaker know works as they know it."""

    def test_call_guards_and_keeps_the_error_as_it_is(self):
        self.assertEqual(5, self.circuit.call(lambda a, b: a + b, 2, b=3))
        for _ in range(3):
            with self.assertRaises(ZeroDivisionError):
                self.circuit.call(lambda: 1 / 0)
        with self.assertRaises(CircuitOpenError):
            self.circuit.call(self.fail)

    def test_the_decorator_and_the_with_statement_guard(self):
        @self.circuit
        def divide(by):
            return 1 / by

        self.assertEqual(1, divide(1))
        with self.assertRaises(ZeroDivisionError):
            divide(0)
        with self.circuit.calling():
            pass
        with self.assertRaises(KeyError), self.circuit.calling():
            raise KeyError
        self.assertEqual((4, 2), (self.circuit.snapshot().calls, self.circuit.fail_counter))

    def test_a_generator_is_guarded_until_it_is_exhausted(self):
        def numbers(fault):
            yield 1
            if fault:
                raise fault
            yield 2

        self.assertEqual([1, 2], list(self.circuit.call(numbers, None)))
        with self.assertRaises(ServiceTimeout):
            list(self.circuit.call(numbers, ServiceTimeout('x')))
        self.assertEqual((2, 1), (self.circuit.snapshot().calls, self.circuit.fail_counter))

    def test_asynchronous_calls_are_refused_rather_than_guarded_wrongly(self):
        with self.assertRaises(NotImplementedError):
            self.circuit.call_async(self.fail)

    def test_states_have_their_names_and_can_be_set(self):
        states = {
            'open': pybreaker.CircuitOpenState,
            'half-open': pybreaker.CircuitHalfOpenState,
            'closed': pybreaker.CircuitClosedState,
        }
        for name, cls in states.items():
            self.circuit.state = name
            self.assertIsInstance(self.circuit.state, cls)
            self.assertEqual(name, self.circuit.current_state)
        with self.assertRaises(ValueError):
            self.circuit.state = 'ajar'

    def test_its_setters_change_the_settings(self):
        self.circuit.fail_max = 2
        self.circuit.reset_timeout = 7
        self.circuit.success_threshold = 2
        self.pass_(ServiceTimeout('x'))
        self.pass_(ServiceTimeout('x'))
        self.assertEqual(7, self.circuit.refusal().retry_after)
        self.clock.advance(7)
        self.pass_()
        self.assert_state('half-open')

    def test_a_storage_keeps_the_state_and_gives_it_to_the_next_circuit(self):
        storage = pybreaker.CircuitMemoryStorage('closed')
        first = Circuit('a', settings=SETTINGS, clock=self.clock, storage=storage)
        self.break_(first)
        self.assertEqual('open', storage.state)
        self.assertIsNotNone(storage.opened_at)
        second = Circuit('a', settings=SETTINGS, clock=self.clock, storage=storage)
        self.assertEqual(30, second.refusal().retry_after)

    def test_listeners_hear_calls_outcomes_and_changes_in_order(self):
        self.circuit.call(lambda: None)
        self.pass_(QuotaExceeded('x'))
        self.break_()
        self.clock.advance(30)
        self.pass_()
        self.assertEqual(
            ['before', 'success', *['ServiceTimeout'] * 3, 'success'], self.recorder.words
        )
        self.assertEqual(
            [('closed', 'open'), ('open', 'half-open'), ('half-open', 'closed')],
            self.recorder.changes,
        )

    def test_listeners_are_told_under_no_lock(self):
        self.break_()
        self.circuit.close()
        self.assertEqual([True, True], self.recorder.lock_was_free)

    def test_a_listener_that_raises_changes_no_result_and_is_logged_once(self):
        class Bad(pybreaker.CircuitBreakerListener):
            def success(self, cb):
                raise ZeroDivisionError

            def state_change(self, cb, old_state, new_state):
                raise ZeroDivisionError

        self.circuit.add_listener(Bad())
        with self.assertLogs('kiln.wrappers', logging.ERROR) as logs:
            for _ in range(3):
                self.assertEqual(7, self.circuit.call(lambda: 7))
            for _ in range(3):
                self.circuit.trip()
                self.circuit.close()
        self.assertEqual(2, len(logs.records))

    def test_a_listener_may_change_the_circuit_it_hears_of(self):
        class Closer(pybreaker.CircuitBreakerListener):
            def state_change(self, cb, old_state, new_state):
                if new_state.name == 'open':
                    cb.close()

        self.circuit.add_listener(Closer())
        self.circuit.trip()
        self.assert_state('closed')
        self.assertEqual([('closed', 'open'), ('open', 'closed')], self.recorder.changes)


class ParallelTest(unittest.TestCase):
    def test_sixty_four_calls_run_side_by_side(self):
        circuit = Circuit('east/read')
        # None comes back before all are out, so a lock would break this.
        all_are_out = threading.Barrier(64)
        threads = [
            threading.Thread(target=circuit.call, args=(all_are_out.wait, 20)) for _ in range(64)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertFalse(all_are_out.broken)
        self.assertEqual(64, circuit.snapshot().calls)
