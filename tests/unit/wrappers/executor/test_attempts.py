import math
import random
import unittest

from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraComputeError,
    CircuitOpenError,
    DeleteTimeout,
    QuotaExceeded,
    RateLimited,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.wrappers.executor.attempts import Backoff, may_repeat


class Pauses(unittest.TestCase):
    def pauses(self, attempt, error=None, seed=1):
        rng = random.Random(seed)
        backoff = Backoff(first_s=0.5, max_s=30, rng=rng)
        return [backoff.pause_s(attempt, error) for _ in range(500)]

    def test_pauses_double_up_to_the_maximum_with_full_jitter(self):
        for attempt, ceiling in ((1, 0.5), (2, 1), (4, 4), (7, 30), (10_000, 30)):
            with self.subTest(attempt):
                pauses = self.pauses(attempt)
                self.assertLessEqual(max(pauses), ceiling)
                self.assertGreater(max(pauses), ceiling * 0.9)
                self.assertLess(min(pauses), ceiling * 0.2)
                self.assertGreaterEqual(min(pauses), ceiling * 0.1)

    def test_a_seed_determines_the_sequence(self):
        self.assertEqual(self.pauses(3, seed=5), self.pauses(3, seed=5))
        self.assertNotEqual(self.pauses(3, seed=5), self.pauses(3, seed=6))

    def test_a_requested_pause_is_kept_and_extended_at_random(self):
        pauses = self.pauses(1, RateLimited('slow', retry_after=7))
        self.assertGreaterEqual(min(pauses), 7)
        self.assertLessEqual(max(pauses), 7.5)
        self.assertGreater(len(set(pauses)), 400)

    def test_a_circuit_opened_by_hand_is_not_awaited(self):
        self.assertEqual(self.pauses(1, CircuitOpenError('open'))[0], math.inf)

    def test_a_pause_depends_only_on_its_arguments(self):
        expected = 8 * random.Random(0).uniform(0.1, 1)
        self.assertEqual(self.pauses(5, seed=0)[0], expected)


class Repeating(unittest.TestCase):
    def test_a_call_is_repeated_only_if_that_is_safe(self):
        for call, error, expected in (
            (Call.GET, ServiceTimeout('?'), True),
            (Call.DELETE, DeleteTimeout('?'), True),
            (Call.SUSPEND, ServiceTimeout('?'), False),
            (Call.SUSPEND, ServiceUnavailable('never arrived'), True),
            (Call.BUILD, RateLimited('never arrived'), True),
            (Call.BUILD, ServiceTimeout('?'), False),
            (Call.GET, QuotaExceeded('no'), False),
            (Call.GET, AmphoraComputeError('a defect'), False),
        ):
            with self.subTest(f'{call.label} after {error.code}'):
                self.assertIs(may_repeat(call, error), expected)
