"""The drivers that fail on purpose do so as they are told, and else not at all."""

import unittest

from kiln.compute_drivers.calls import Call
from kiln.exceptions import BuildOutcomeUnknown, ServiceUnavailable
from kiln.testing.clock import VirtualClock
from kiln.testing.conformance import ComputeDriverConformance
from kiln.testing.faulty import FailingDriver, FaultyDriver, FlappingDriver, SlowDriver
from kiln.testing.minimal import MinimalDriver


def outcomes(driver, times):
    """Ask a driver so many times, and tell which were answered."""
    answered = []
    for _ in range(times):
        try:
            answered.append(bool(driver.check()))
        except ServiceUnavailable:
            answered.append(False)
    return answered


class AdvancingClock(VirtualClock):
    """A clock that sleeps by going on."""

    sleep = VirtualClock.advance


class SlowDriverTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        inner = MinimalDriver()
        inner.clock = self.clock = AdvancingClock()
        self.driver = SlowDriver(inner, 3, calls=[Call.BUILD])

    def test_a_slow_call_takes_its_time(self):
        self.driver.build()
        self.assertEqual(self.clock.monotonic(), 3)

    def test_other_calls_take_none(self):
        self.driver.check()
        self.assertEqual(self.clock.monotonic(), 0)


class FailingDriverTest(unittest.TestCase):
    def test_a_broken_driver_fails_and_does_nothing(self):
        driver = FailingDriver(MinimalDriver(), calls=[Call.BUILD])
        with self.assertRaises(ServiceUnavailable):
            driver.build()
        self.assertEqual(list(driver.list_amphorae()), [])

    def test_a_repaired_driver_serves(self):
        driver = FailingDriver(MinimalDriver())
        driver.broken = False
        self.assertTrue(driver.status(driver.build()).ready)

    def test_a_driver_that_fails_late_has_done_it_all_the_same(self):
        def lost(call):
            return BuildOutcomeUnknown(f'Cannot say what became of a {call.label}.')

        driver = FailingDriver(MinimalDriver(), lost, late=True, calls=[Call.BUILD])
        with self.assertRaises(BuildOutcomeUnknown):
            driver.build(name='web-1')
        self.assertEqual(driver.get_amphora('web-1').name, 'web-1')


class FlappingDriverTest(unittest.TestCase):
    def test_failures_and_answers_come_in_turns(self):
        driver = FlappingDriver(MinimalDriver(), fails=2, serves=1)
        self.assertEqual(outcomes(driver, 6), [False, False, True] * 2)


class FaultyDriverTest(unittest.TestCase):
    def test_what_is_done_to_the_calls_must_be_said(self):
        with self.assertRaises(NotImplementedError):
            FaultyDriver(MinimalDriver()).disturb(Call.CHECK)


class RepairedConformance(ComputeDriverConformance, unittest.TestCase):
    short_s = 0.2

    def make_driver(self):
        driver = FailingDriver(MinimalDriver())
        driver.broken = False
        return driver


class HooksOfFaultyDriverTest(unittest.TestCase):
    def test_the_hooks_lead_to_the_right_driver_through_the_fault(self):
        driver = FailingDriver(MinimalDriver())
        driver.broken = False
        amphora_id = driver.build(build_key='key-1')
        self.assertEqual(driver._get(amphora_id), driver._find_build('key-1'))
        driver.broken = True
        with self.assertRaises(ServiceUnavailable):
            driver._delete(amphora_id)
        with self.assertRaises(ServiceUnavailable):
            driver._build(None)
