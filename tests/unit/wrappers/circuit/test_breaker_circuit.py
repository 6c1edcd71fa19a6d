"""Circuits that open, by themselves or by hand, and the calls that they refuse."""

import asyncio
import threading
import unittest

from kiln.exceptions import CircuitOpenError, InstanceNotFoundError, QuotaExceeded, ServiceTimeout
from kiln.wrappers.circuit.circuit import Circuit
from tests.unit.wrappers.circuit.circuit_case import CircuitCase


class ClosedCircuitTest(CircuitCase):
    def test_it_stays_closed_below_the_minimum_number_of_calls(self):
        for _ in range(3):
            self.pass_(ServiceTimeout('no answer'))
        self.assert_state('closed')
        self.pass_(ServiceTimeout('no answer'))
        self.assert_state('open')

    def test_it_opens_on_a_rate_and_not_on_consecutive_failures(self):
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

    def test_a_success_never_trips_even_if_it_completes_the_minimum(self):
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
        self.assertEqual(1, self.circuit.snapshot().calls)

    def test_neutral_outcomes_neither_count_nor_clear(self):
        for _ in range(3):
            self.pass_(ServiceTimeout('x'))
        for _ in range(50):
            self.pass_(QuotaExceeded('no more'))
        self.assertEqual(3, self.circuit.snapshot().calls)
        self.pass_(ServiceTimeout('x'))
        self.assert_state('open')

    def test_interleaved_not_found_errors_neither_trip_nor_close(self):
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

    def test_interrupts_and_cancelled_tasks_do_not_count(self):
        for _ in range(20):
            self.pass_(KeyboardInterrupt())
            self.pass_(SystemExit())
            self.pass_(asyncio.CancelledError())
        self.assertEqual(0, self.circuit.snapshot().calls)

    def test_a_foreign_error_is_a_failure(self):
        for _ in range(4):
            self.pass_(ZeroDivisionError())
        self.assertEqual('ZeroDivisionError', self.circuit.snapshot().opened_by)

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

    def test_too_many_slow_calls_open_it_even_if_they_succeed(self):
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

    def test_a_slow_probe_is_not_a_recovery(self):
        self.break_()
        self.clock.advance(30)
        self.pass_(takes=5)
        self.assert_state('open')
        self.assertEqual(2, self.circuit.snapshot().trips)

    def test_slowness_is_ignored_if_no_limit_is_set(self):
        circuit = self.make()
        for _ in range(10):
            self.pass_(circuit=circuit, takes=50)
        self.assert_state('closed', circuit)


class OpenCircuitTest(CircuitCase):
    def test_a_refusal_states_circuit_time_and_cause(self):
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

    def test_refusal_returns_the_same_error_and_takes_no_probe(self):
        self.assertIsNone(self.circuit.refusal())
        self.break_()
        self.assertEqual(30, self.circuit.refusal().retry_after)
        self.clock.advance(30)
        for _ in range(3):
            self.assertIsNone(self.circuit.refusal())
        self.assert_state('open')
        self.circuit.admit()
        self.assertIsNotNone(self.circuit.refusal())

    def test_a_result_from_before_the_trip_is_dropped(self):
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

    def test_jitter_shortens_periods_and_is_repeatable_by_its_seed(self):
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

    def test_a_healthy_window_resets_earlier_trips(self):
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


class HandTest(CircuitCase):
    def test_isolated_it_stays_open_until_closed_by_hand(self):
        self.circuit.isolate()
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

    def test_isolating_drops_results_of_calls_in_progress(self):
        ticket = self.circuit.admit()
        self.circuit.isolate()
        self.circuit.settle(ticket)
        self.assertTrue(self.circuit.snapshot().manual)

    def test_tripped_by_hand_it_opens_for_the_normal_period(self):
        self.circuit.trip()
        self.assertEqual(30, self.circuit.refusal().retry_after)
        self.assertEqual('by_hand', self.circuit.snapshot().opened_by)

    def test_tripped_with_a_cause_it_states_the_cause(self):
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

    def test_a_snapshot_shows_the_whole_state(self):
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


class ParallelTest(unittest.TestCase):
    def test_sixty_four_calls_run_concurrently(self):
        circuit = Circuit('east/read')
        # No call returns before all have started, so a lock would block this.
        all_are_out = threading.Barrier(64)

        def call():
            ticket = circuit.admit()
            all_are_out.wait(20)
            circuit.settle(ticket)

        threads = [threading.Thread(target=call) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertFalse(all_are_out.broken)
        self.assertEqual(64, circuit.snapshot().calls)
