"""Crash tests of clusters on the real Nova: working processes are killed with -9.

KILN_NOVA_CRASHES is the number of killed processes; a soak uses 30.
"""

import os
import unittest

from kiln.testing.clusters.simulation.site import Site
from tests.functional.nova.crash_site import SLOW, ClusterLifecycle, NovaSite, options_for
from tests.functional.nova.site import NovaCase

CRASHES = int(os.environ.get('KILN_NOVA_CRASHES', '1'))


class OnNova(ClusterLifecycle, NovaCase):
    crashes = CRASHES

    def site(self, folder):
        options = options_for(self)
        site = NovaSite(folder=folder, driver=self.driver, options=options, owner=self.owner)
        self.addCleanup(self.remove, site)
        return site

    def remove(self, site):
        # After a failed run, no other code removes its machines.
        left = site.machines()
        driver = site.open_driver()
        self.addCleanup(driver.close)
        for machine in left:
            driver.delete(machine.id)


class OnNoop(ClusterLifecycle, unittest.TestCase):
    """The same without a cloud: a failure here is not caused by Nova."""

    crashes = 1

    def site(self, folder):
        return Site(folder=folder, driver=self.driver, settings=SLOW, build_s=0.5, delete_s=0.3)
