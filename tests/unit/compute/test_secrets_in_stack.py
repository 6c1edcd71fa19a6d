"""Secrets planted in builds, through all guards of a driver."""

import unittest

from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Action, Fault
from kiln.exceptions import KilnError
from kiln.wrappers.circuit.settings import CircuitSettings
from tests.self_moving_clock import MovingTime
from tests.unit.memory_driver import MemoryDriver
from tests.unit.test_secrets import CARRIERS, WHOLE, Ears, quoting


def only_builds(hook):
    """Return the hook for builds; look-ups work normally."""
    return lambda name, *args: hook(name, *args) if name == '_build' else None


class SecretsInStackTest(MovingTime, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.ears = Ears(self)
        self.clock = self.open_clock()

    def facade(self, driver):
        settings = StackSettings(circuit=CircuitSettings(minimum_calls=1))
        compute = Compute(driver, settings=settings, listeners=self.ears.listeners)
        self.addCleanup(compute.close, 0.1)
        return compute

    def build(self, compute, **arguments):
        """Build, and collect all output; return True if the build succeeded."""
        try:
            operation = compute.build(timeout=5, **WHOLE, **arguments)
        except KilnError as refused:
            self.ears.hear(refused)
            return False
        self.until(operation.done)
        error = operation.exception()
        for thing in (operation, *operation.events, error or operation.result()):
            self.ears.hear(thing)
        return error is None

    def test_a_successful_build_reveals_nothing(self):
        compute = self.facade(NoopDriver(cloud=NoopCloud(clock=self.clock)))
        self.assertTrue(self.build(compute, until=Until.ACTIVE))
        self.ears.assert_kept(self)

    def test_no_error_of_a_driver_reveals_its_quotations(self):
        for carrier in CARRIERS:
            for nested in (False, True):
                with self.subTest(carrier=carrier, nested=nested):
                    driver = MemoryDriver(self.clock)
                    driver.on_hook = only_builds(quoting(carrier, 'as the body sent', nested))
                    compute = self.facade(driver)
                    # The second build might meet an open circuit, which states its cause.
                    self.assertEqual({self.build(compute) for _ in range(2)}, {False})
                    self.ears.assert_kept(self)
        self.assertIn('CircuitOpenError', self.ears.everything())

    def test_no_scripted_fault_reveals_what_was_sent(self):
        for action in set(Action) - {Action.CRASH}:
            with self.subTest(action):
                fault = Fault(action=action, call='build', seconds=10.0)
                cloud = NoopCloud(clock=self.clock, faults=[fault])
                self.build(self.facade(NoopDriver(cloud=cloud)), until=Until.ACTIVE)
                self.ears.assert_kept(self)
