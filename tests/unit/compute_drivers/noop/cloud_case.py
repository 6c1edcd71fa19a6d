"""Base class for tests of the simulated cloud."""

import unittest

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.testing.clock import VirtualClock


class CloudCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.clock = VirtualClock()

    def driver(self, *, owner='kiln', cloud=None, **offer):
        driver = NoopDriver(cloud=cloud or NoopCloud(clock=self.clock, **offer))
        driver.owner = owner
        return driver

    def state(self, driver, amphora_id):
        return driver.status(amphora_id).state
