"""Half-open circuits: which calls they admit, and the effect of the results."""

import asyncio
import threading

from kiln.exceptions import (
    CircuitOpenError,
    InstanceNotFoundError,
    QuotaExceeded,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.testing.clock import VirtualClock
from kiln.wrappers.circuit.circuit import Circuit
from tests.unit.wrappers.circuit.circuit_case import SETTINGS, CircuitCase


class HalfOpenCircuitTest(CircuitCase):
    def setUp(self):
        super().setUp()
        self.break_()
        self.clock.advance(30)

    def test_a_successful_probe_closes_it_and_clears_old_failures(self):
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

    def test_a_hundred_threads_send_one_probe_and_the_others_are_refused_at_once(self):
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
            release.wait(120)
            self.circuit.settle(ticket)

        threads = [threading.Thread(target=ask) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual((1, 99), (len(calls), len(refusals)))
        self.assertEqual({1.0}, {refusal.retry_after for refusal in refusals})
        self.assert_state('closed')

    def test_a_call_too_late_for_the_probe_follows_its_result(self):
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

    def test_a_hanging_probe_does_not_block_it(self):
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

    def test_a_result_after_its_lease_still_counts_without_another_probe(self):
        ticket = self.circuit.admit()
        self.clock.advance(11)
        self.circuit.settle(ticket)
        self.assert_state('closed')

    def test_several_successful_probes_in_a_row_can_be_required(self):
        circuit = self.make(success_threshold=3)
        self.break_(circuit)
        self.clock.advance(30)
        self.pass_(circuit=circuit)
        self.pass_(QuotaExceeded('x'), circuit=circuit)
        self.pass_(circuit=circuit)
        self.assert_state('half-open', circuit)
        self.pass_(circuit=circuit)
        self.assert_state('closed', circuit)

    def test_a_failure_between_successful_probes_restarts_the_count(self):
        circuit = self.make(success_threshold=2)
        self.break_(circuit)
        self.clock.advance(30)
        self.pass_(circuit=circuit)
        self.pass_(ServiceTimeout('x'), circuit=circuit)
        self.clock.advance(60)
        self.pass_(circuit=circuit)
        self.assert_state('half-open', circuit)
