"""A part of the kit, for tests of what judges mutants."""

import unittest

from kiln.testing.clock import VirtualClock
from kiln.testing.conformance.behaviours.deleting import Deleting

#: File of a simulated cloud, in the current directory.
CLOUD = 'cloud.db'


class Deletes(Deleting, unittest.TestCase):
    """Judges MinimalDriver by what it deletes."""

    def make_driver(self):
        # Imported here, so that it is the mutant.
        from kiln.testing.minimal import MinimalDriver

        driver = MinimalDriver()
        driver.clock = VirtualClock()
        return driver


class DeletesOfNoop(Deleting, unittest.TestCase):
    """Judges Noop by what it deletes from a cloud that outlives its process."""

    def make_driver(self):
        # As above.
        from kiln.compute_drivers.noop.cloud import NoopCloud
        from kiln.compute_drivers.noop.driver import NoopDriver

        return NoopDriver(cloud=NoopCloud(CLOUD))
