import math
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    ConfigurationError,
    Outcome,
    RateLimited,
    ServiceTimeout,
    UnsupportedOperation,
    Verdict,
)
from kiln.models import Limits
from kiln.testing.clock import VirtualClock
from kiln.wrappers.rate import RateDriver, RateSettings, TokenBucket

SETTINGS = RateSettings(rate_per_s=2, burst=3, floor_per_s=0.5, recovery=0.1, pause_s=1)


class Backend(AmphoraComputeDriver):
    """Deletes, or raises a given error."""

    limits = Limits()

    def __init__(self, clock):
        self.clock = clock
        self.deleted = []
        self.error = None

    def _build(self, request):
        return request.name

    def _delete(self, amphora_id):
        self.deleted.append(amphora_id)
        if self.error:
            raise self.error

    def _get(self, amphora_id):
        raise NotImplementedError

    def _list(self, owner):
        return ()


class RateSettingsTest(unittest.TestCase):
    def test_an_invalid_value_is_refused_by_name(self):
        wrong = {
            'rate_per_s': (0, -1, math.inf, math.nan),
            'burst': (0, 1.5),
            'floor_per_s': (0,),
            'recovery': (0,),
            'pause_s': (0,),
        }
        for name, values in wrong.items():
            for value in values:
                with (
                    self.subTest(name=name, value=value),
                    self.assertRaisesRegex(ConfigurationError, name),
                ):
                    RateSettings(**{'rate_per_s': 1, name: value})


class TokenBucketTest(unittest.TestCase):
    def setUp(self):
        self.bucket = TokenBucket(SETTINGS, 100.0)

    def drain(self, now):
        taken = 0
        while self.bucket.take(now):
            taken += 1
        return taken

    def test_a_burst_is_sent_at_once_and_the_rest_at_the_rate(self):
        self.assertEqual(3, self.drain(100.0))
        self.assertEqual(0.5, self.bucket.wait_s(100.0))
        self.assertEqual(1, self.drain(100.5))
        self.assertEqual(2, self.drain(101.5))

    def test_a_quiet_time_accumulates_no_more_than_the_burst(self):
        self.assertEqual(3, self.drain(1e6))

    def test_time_that_goes_back_adds_no_tokens(self):
        self.drain(100.0)
        self.assertFalse(self.bucket.take(99.0))

    def test_a_refusal_stops_all_calls_for_its_pause_and_then_admits_one(self):
        self.bucket.slow_down(100.0, 5.0)
        self.assertEqual(5.0, self.bucket.wait_s(100.0))
        self.assertEqual(0, self.drain(104.99))
        self.assertEqual(1, self.drain(105.0))

    def test_a_pause_ends_on_time_despite_float_rounding(self):
        bucket = TokenBucket(SETTINGS, 0.0)
        now = 1.4463308886081814
        bucket.slow_down(now, 5.0)
        now += 0.41559732448244413
        self.assertTrue(bucket.take(now + bucket.wait_s(now)))

    def test_a_refusal_halves_the_rate_down_to_the_minimum(self):
        rates = []
        for now in (100, 110, 120, 130):
            self.bucket.slow_down(now, 10)
            rates.append(self.bucket.rate_per_s)
        self.assertEqual(1.0, rates[0])
        self.assertEqual(0.5, rates[1])
        self.assertEqual([0.5, 0.5], rates[2:])

    def test_simultaneous_refusals_halve_the_rate_once_with_the_longest_pause(self):
        self.bucket.slow_down(100.0, 2.0)
        self.bucket.slow_down(100.5, 5.0)
        self.bucket.slow_down(100.6, 1.0)
        self.assertEqual(1.0, self.bucket.rate_per_s)
        self.assertEqual(5.5, self.bucket.wait_s(100.0))

    def test_a_refusal_soon_after_a_short_pause_does_not_halve_again(self):
        self.bucket.slow_down(100.0, 0.001)
        self.bucket.slow_down(100.5, 0.001)
        self.assertGreaterEqual(self.bucket.rate_per_s, 1.0)

    def test_the_rate_grows_back_linearly(self):
        self.bucket.slow_down(100.0, 2.0)
        for now, rate in ((102, 1.0), (103, 1.2), (105, 1.6), (107, 2.0), (200, 2.0)):
            self.bucket.wait_s(now)
            self.assertAlmostEqual(rate, self.bucket.rate_per_s)

    @given(
        st.floats(0.1, 50),
        st.integers(1, 20),
        st.lists(
            st.tuples(st.floats(0, 3), st.integers(0, 30), st.none() | st.floats(0, 5)),
            max_size=40,
        ),
    )
    def test_no_period_has_more_calls_than_the_rate_and_one_burst(self, rate, burst, steps):
        bucket = TokenBucket(RateSettings(rate_per_s=rate, burst=burst), 50.0)
        now, taken = 50.0, []
        for pause, wanted, refused in steps:
            now += pause
            taken += [now for _ in range(wanted) if bucket.take(now)]
            if refused is not None:
                bucket.slow_down(now, refused)
        for first, start in enumerate(taken):
            for last in range(first, len(taken)):
                allowed = rate * (taken[last] - start) + burst
                self.assertLessEqual(last - first + 1, allowed + 1e-3)

    @given(
        st.floats(0.1, 1000),
        st.floats(0.001, 1),
        st.lists(st.tuples(st.floats(0, 3), st.floats(0, 5)), max_size=8),
    )
    def test_a_caller_that_waits_for_wait_s_gets_a_token_on_time(self, rate, recovery, refusals):
        settings = RateSettings(rate_per_s=rate, burst=2, recovery=recovery)
        bucket = TokenBucket(settings, 0.0)
        now = 0.0
        for pause, refused in refusals:
            now += pause
            bucket.slow_down(now, refused)
        while bucket.take(now):
            pass
        for _ in range(5):
            wait_s = bucket.wait_s(now)
            if wait_s > 1e-3:
                self.assertFalse(bucket.take(now + wait_s * 0.9))
            now += wait_s
            self.assertTrue(bucket.take(now), wait_s)


class RateDriverTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.backend = Backend(self.clock)
        self.driver = RateDriver(self.backend, settings=SETTINGS)

    def spend_burst(self):
        for number in range(SETTINGS.burst):
            self.driver.delete(str(number))

    def test_an_empty_bucket_refuses_without_a_call(self):
        self.spend_burst()
        with self.assertRaises(RateLimited) as caught:
            self.driver.delete('late')
        error = caught.exception
        self.assertEqual(0.5, error.retry_after)
        self.assertEqual((Outcome.NOT_APPLIED, Verdict.NEUTRAL), (error.outcome, error.circuit))
        self.assertEqual(('compute', 'delete'), (error.backend, error.operation))
        self.assertTrue(error.retryable)
        self.assertNotIn('late', self.backend.deleted)

    def test_refusal_returns_the_same_error_and_takes_no_token(self):
        for _ in range(10):
            self.assertIsNone(self.driver.refusal(Call.DELETE))
        self.spend_burst()
        self.assertEqual(0.5, self.driver.refusal(Call.DELETE).retry_after)
        self.clock.advance(0.5)
        self.assertIsNone(self.driver.refusal(Call.DELETE))
        self.driver.delete('in time')
        self.assertIn('in time', self.backend.deleted)

    def test_refusal_includes_the_layers_below(self):
        below = RateDriver(self.backend, settings=RateSettings(rate_per_s=1, burst=1))

        class Other(RateDriver):
            pass

        driver = Other(below, settings=SETTINGS)
        driver.delete('x')
        self.assertEqual(1, driver.refusal(Call.DELETE).retry_after)

    def test_a_refusal_by_the_backend_halves_the_rate_and_is_raised(self):
        self.backend.error = RateLimited('slower', retry_after=4)
        with self.assertRaises(RateLimited) as caught:
            self.driver.delete('a')
        self.assertIs(self.backend.error, caught.exception)
        self.assertEqual(1.0, self.driver.rate_per_s)
        self.assertEqual(4, self.driver.refusal(Call.DELETE).retry_after)
        self.backend.error = None
        self.clock.advance(4)
        self.driver.delete('b')
        self.clock.advance(5)
        self.assertEqual(2.0, self.driver.rate_per_s)

    def test_a_refusal_without_retry_after_pauses_for_the_configured_time(self):
        self.backend.error = RateLimited('slower')
        with self.assertRaises(RateLimited):
            self.driver.delete('a')
        self.assertEqual(1, self.driver.refusal(Call.DELETE).retry_after)

    def test_other_errors_do_not_change_the_rate(self):
        self.backend.error = ServiceTimeout('x')
        with self.assertRaises(ServiceTimeout):
            self.driver.delete('a')
        self.assertEqual(2.0, self.driver.rate_per_s)

    def test_a_missing_ability_costs_no_token(self):
        self.spend_burst()
        with self.assertRaises(UnsupportedOperation):
            self.driver.suspend('a')
        self.assertIsInstance(self.driver.refusal(Call.SUSPEND), UnsupportedOperation)
