"""The conformance kit on the real Nova, bare and behind all of kiln's guards."""

import os

from kiln.driver_manager import stack_settings
from kiln.stack import assemble
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from kiln.testing.conformance.building import Building
from kiln.testing.conformance.deleting import Deleting
from kiln.testing.conformance.execution import Execution
from tests.functional.nova.site import NovaBench, NovaCase


class Essentials(Building, Deleting, Execution):
    """What a guard or a lock could break."""


#: The whole kit takes some minutes; twice more it is a matter for a soak.
AGAIN = ComputeDriverConformance if os.environ.get('KILN_FULL') else Essentials


class OnNova:
    """Shows each behaviour that Nova has a way to show.

    Not shown, with the reason in the run's output: a build refused for lack of
    room, because Nova accepts it and fails it later (test_builds shows that).
    """

    timeout_s = 120.0
    soon_s = 60.0

    def setUp(self):
        self.network_ids = (self.net_id,)
        super().setUp()

    def port_id(self):
        # The fake hypervisor remembers where a port once hung, and refuses it
        # elsewhere: so each behaviour that needs a port has one of its own.
        return self.make_port()

    def make_driver(self):
        return self.open_driver()

    def make_faults(self, driver):
        return NovaBench(driver, self)


class NovaConformance(OnNova, ComputeDriverConformance, FaultConformance, NovaCase):
    """The driver as it is."""


class GuardedNovaConformance(OnNova, AGAIN, FaultConformance, NovaCase):
    """The same, through executor, circuits and all."""

    def make_driver(self):
        stack = assemble(super().make_driver(), stack_settings(self.options()))
        self.addCleanup(stack.close, 5)
        return stack.executor


class LockedNovaConformance(OnNova, AGAIN, FaultConformance, NovaCase):
    """The same, with a port made as a lock for each build."""

    def make_driver(self):
        return self.open_driver(port_lock=True)
