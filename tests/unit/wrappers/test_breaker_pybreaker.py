"""A circuit to those who know pybreaker: its calls, states, storage and listeners."""

import logging

import pybreaker

from kiln.exceptions import CircuitOpenError, QuotaExceeded, ServiceTimeout
from kiln.wrappers.circuit import Circuit
from tests.unit.wrappers.circuit_case import SETTINGS, CircuitCase


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
