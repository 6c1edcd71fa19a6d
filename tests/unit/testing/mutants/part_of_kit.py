"""A part of the kit, for tests of what judges mutants."""

import unittest

from kiln.testing.clock import VirtualClock
from kiln.testing.conformance.behaviours.deleting import Deleting


class Deletes(Deleting, unittest.TestCase):
    """Judges MinimalDriver by what it deletes."""

    def make_driver(self):
        # Imported here, so that it is the mutant.
        from kiln.testing.minimal import MinimalDriver

        driver = MinimalDriver()
        driver.clock = VirtualClock()
        return driver
