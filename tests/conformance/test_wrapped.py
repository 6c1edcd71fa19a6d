"""Any stack of wrappers keeps the promises of the driver inside."""

import dataclasses
import unittest

from kiln.clock import SYSTEM_CLOCK
from kiln.compute.stack import StackSettings, assemble
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.telemetry.events import Listener, Listeners
from kiln.testing.clock import VirtualClock
from kiln.testing.conformance import (
    BehaviourOutcome,
    ComputeDriverConformance,
    FaultConformance,
    run_conformance,
)
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.circuit.breaker import BreakerDriver
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.observer import ObserverDriver
from kiln.wrappers.rate import RateDriver, RateSettings

PLENTY = RateSettings(rate_per_s=100_000, burst=10_000)


class WrappedConformance(ComputeDriverConformance, FaultConformance):
    """The kit around one wrapper, or several, on a cloud that takes its time."""

    effect_s = 30.0

    def wrap(self, driver):
        raise NotImplementedError

    def a_clock(self):
        return VirtualClock()

    def make_driver(self):
        names = ('build_s', 'delete_s', 'suspend_s', 'resume_s', 'reboot_s', 'rebuild_s')
        latencies = dict.fromkeys(names, self.effect_s)
        return self.wrap(NoopDriver(cloud=NoopCloud(clock=self.a_clock(), **latencies)))


class PlainWrapperConformance(WrappedConformance, unittest.TestCase):
    def wrap(self, driver):
        return DriverWrapper(driver)


class ObserverConformance(WrappedConformance, unittest.TestCase):
    def wrap(self, driver):
        return ObserverDriver(driver, Listeners([Listener()]))


class BreakerConformance(WrappedConformance, unittest.TestCase):
    def wrap(self, driver):
        return BreakerDriver(driver)


class RateConformance(WrappedConformance, unittest.TestCase):
    def wrap(self, driver):
        return RateDriver(driver, settings=PLENTY)


class LongPauseTest(unittest.TestCase):
    """A circuit whose pause is far longer than any effect of the backend."""

    def test_the_kit_waits_for_the_pause_and_leaves_nothing_to_warn_about(self):
        def make_driver():
            settings = CircuitSettings(minimum_calls=1, open_s=300, open_max_s=300)
            cloud = NoopCloud(clock=VirtualClock(), build_s=1)
            return BreakerDriver(NoopDriver(cloud=cloud), settings=settings)

        with self.assertNoLogs('kiln', 'WARNING'):
            report = run_conformance(make_driver, select=['Outages'], timeout_s=10)
        self.assertEqual(3, len(report.of(BehaviourOutcome.PASSED)), report.render())


class AssembledConformance(WrappedConformance, unittest.TestCase):
    """All guards in the order of the facade, seen as a driver that blocks.

    Nobody is left to move a virtual clock while it does, so this one is real.
    """

    effect_s = 0.01
    short_s = 0.2

    settings = StackSettings(
        executor=ExecutorSettings(first_delay_s=0.01, max_delay_s=0.02),
        # What opens in an outage closes soon after it.
        circuit=CircuitSettings(open_s=0.1, open_factor=1),
        rate=dataclasses.replace(PLENTY, pause_s=0.01),
    )

    def a_clock(self):
        return SYSTEM_CLOCK

    def wrap(self, driver):
        stack = assemble(driver, self.settings, [Listener()])
        self.addCleanup(stack.close, 5.0)
        return stack.executor
