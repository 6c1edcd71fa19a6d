"""Conformance of the minimal driver that vendors start from."""

import unittest

from kiln.testing.clock import VirtualClock
from kiln.testing.conformance import ComputeDriverConformance
from kiln.testing.minimal import MinimalDriver


class MinimalConformance(ComputeDriverConformance, unittest.TestCase):
    def make_driver(self):
        driver = MinimalDriver()
        driver.clock = VirtualClock()
        return driver
