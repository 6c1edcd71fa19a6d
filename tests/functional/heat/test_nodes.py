"""A cluster of nodes_v1 whose nodes are stacks of the real Heat; working processes are killed.

KILN_HEAT_NODE_KILLS is the number of killed processes; a soak uses 30.
"""

import dataclasses
import os

from kiln.compute_drivers.heat.driver import StackDriver
from kiln.testing.clusters.simulation.operations import CREATE, DELETE, REPLACE
from tests.functional.heat.compute_site import HeatCase
from tests.functional.nova.crash_site import ClusterLifecycle, NovaSite, options_for

KILLS = int(os.environ.get('KILN_HEAT_NODE_KILLS', '1'))


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeatSite(NovaSite):
    """The same site with its machines as stacks."""

    backend = 'heat'
    driver_class = StackDriver


class OnHeat(ClusterLifecycle, HeatCase):
    """Two nodes come up, one is replaced, and all are deleted."""

    life = (CREATE, REPLACE, DELETE)
    crashes = KILLS
    within_s = 240.0

    def site(self, folder):
        site = HeatSite(
            folder=folder, driver=self.driver, options=options_for(self), owner=self.owner
        )
        self.addCleanup(self.remove, site)
        return site

    def remove(self, site):
        # After a failed run, no other code removes its machines.
        driver = site.open_driver()
        self.addCleanup(driver.close)
        for machine in site.machines():
            driver.delete(machine.id)
