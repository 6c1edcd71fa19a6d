"""Conformance kit on the real Ironic, for the bare driver and behind all wrappers."""

import os

from kiln.compute.backends import stack_settings
from kiln.compute.stack import assemble
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from kiln.testing.conformance.behaviours.building import Building
from kiln.testing.conformance.behaviours.claiming import Claiming, LostClaims
from kiln.testing.conformance.behaviours.deleting import Deleting
from kiln.testing.conformance.behaviours.errors import Errors
from kiln.testing.conformance.behaviours.execution import Execution
from kiln.testing.conformance.behaviours.faults import Failures
from kiln.testing.conformance.behaviours.outages import Outages
from kiln.testing.conformance.behaviours.repeating import Repeating
from kiln.testing.conformance.behaviours.requests import Requests
from kiln.testing.conformance.behaviours.sharing import Sharing
from kiln.testing.conformance.behaviours.states import States
from kiln.testing.conformance.behaviours.translation import Translation
from kiln.testing.conformance.sweep import other_owner
from tests.functional.ironic.site import IronicCase, IronicFaults


class OnIronic:
    """Tests each behaviour that can be caused in Ironic; it has no quotas."""

    timeout_s, soon_s = 60.0, 30.0

    def make_driver(self):
        # Small pages, which the kit fills.
        return self.open_driver(page_size=4)

    def let_nodes_go(self):
        """Wait until all nodes are given back: the next behaviour has no others.

        Ironic does not interrupt a deploy, so its node goes at a later look of the driver.
        """
        owners = (self.owner, other_owner(self.prefix))
        if self.claims(*owners):
            driver = self.open_driver()
            self.nodes.until(
                lambda: not any([*driver.list_amphorae(owner=owner)] for owner in owners)
            )
        for resource_class in self.flavor, self.waiting:
            self.nodes.take_back(resource_class)

    def setUp(self):
        # The last cleanup of all.
        self.addCleanup(self.let_nodes_go)
        super().setUp()
        faults = self.make_faults(self.driver)
        self.bench.lacking, self.bench.reboots_hard = faults.lacking, faults.reboots_hard
        self.bench.make_unowned = faults.make_unowned

    def build(self, **given):
        self.nodes.switch_on(self.flavor)
        return super().build(**given)

    def make_faults(self, driver):
        return IronicFaults(driver, self)


class Guarded(OnIronic):
    """Through the executor, the circuits and all other wrappers."""

    def make_driver(self):
        stack = assemble(super().make_driver(), stack_settings(self.options()))
        self.addCleanup(stack.close, 5)
        return stack.executor


class IronicConformance(
    OnIronic, Building, Claiming, LostClaims, Deleting, Errors, Execution, Failures, Outages,
    Requests, Sharing, States, Translation, IronicCase,
):  # fmt: skip
    """The bare driver, for the behaviours that involve Ironic."""


class GuardedIronicConformance(Guarded, Repeating, IronicCase):
    """Behind the guards, for the behaviours that they could break."""


# Each of them takes many minutes.
if os.environ.get('KILN_FULL'):

    class WholeIronicConformance(OnIronic, ComputeDriverConformance, FaultConformance, IronicCase):
        pass

    class WholeGuardedIronicConformance(
        Guarded, ComputeDriverConformance, FaultConformance, IronicCase
    ):
        pass
