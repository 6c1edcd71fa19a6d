"""A facade on a simulated cloud whose clock moves by itself."""

import unittest

from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from tests.self_moving_clock import MovingTime


class FacadeTest(MovingTime, unittest.TestCase):
    settings = StackSettings()
    listeners = ()

    def setUp(self):
        self.clock = self.open_clock()
        self.cloud = NoopCloud(clock=self.clock, build_s=20, delete_s=5, seed=1)
        self.compute = Compute(
            NoopDriver(cloud=self.cloud), settings=self.settings, listeners=self.listeners
        )
        self.addCleanup(self.compute.close, 0.1)

    def settle(self, *operations):
        self.until(lambda: all(operation.done() for operation in operations))
        return operations[0].result()

    def settled_error(self, operation):
        self.until(operation.done)
        return operation.exception()

    def build(self, **arguments):
        return self.settle(self.compute.build(until=Until.ACTIVE, **arguments))

    def machine(self, amphora_id):
        return NoopDriver(cloud=self.cloud).get_amphora(amphora_id=amphora_id)

    def nothing_left(self):
        self.until(lambda: self.cloud.count() == 0)
