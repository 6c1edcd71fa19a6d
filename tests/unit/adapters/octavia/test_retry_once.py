"""Retries of calls that an open circuit refuses."""

import unittest

from kiln.adapters.octavia.retry_once import patiently
from kiln.exceptions import CircuitOpenError, PermissionDenied
from kiln.testing.clock import VirtualClock


class Passing(VirtualClock):
    """A clock on which a sleep only advances the time."""

    def sleep(self, seconds):
        self.advance(seconds)


class Answer:
    def __init__(self, outcome):
        self._outcome = outcome

    def result(self):
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


class Patience(unittest.TestCase):
    def setUp(self):
        self.clock = Passing()
        self.left = []

    def ask(self, *outcomes, within_s=60.0):
        left_to_say = list(outcomes)

        def call(left_s):
            self.left.append(left_s)
            return Answer(left_to_say.pop(0))

        return patiently(call, within_s, clock=self.clock)

    def test_a_refused_call_is_repeated_with_the_remaining_time(self):
        refused = CircuitOpenError('The circuit is open.', retry_after=20.0)
        self.assertEqual('done', self.ask(refused, refused, 'done'))
        self.assertEqual([60.0, 40.0, 20.0], self.left)

    def test_a_refusal_that_outlasts_the_time_is_raised(self):
        refused = CircuitOpenError('The circuit is open.', retry_after=40.0)
        with self.assertRaises(CircuitOpenError):
            self.ask(refused, refused, 'done')
        self.assertEqual([60.0, 20.0], self.left)

    def test_a_circuit_that_was_opened_by_hand_is_not_waited_for(self):
        with self.assertRaises(CircuitOpenError):
            self.ask(CircuitOpenError('Opened by hand.'), 'done')
        self.assertEqual(1, len(self.left))

    def test_any_other_error_is_raised(self):
        with self.assertRaises(PermissionDenied):
            self.ask(PermissionDenied('No.'), 'done')
