"""Conformance kit on the real Ironic, for the bare driver and behind all wrappers."""

from kiln.compute.backends import stack_settings
from kiln.compute.stack import assemble
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from tests.functional.ironic.site import IronicCase, IronicFaults


class OnIronic:
    """Tests each behaviour that can be caused in Ironic; it has no quotas."""

    timeout_s, soon_s = 60.0, 30.0

    def make_driver(self):
        # Small pages, which the kit fills.
        return self.open_driver(page_size=4)

    def setUp(self):
        super().setUp()
        faults = self.make_faults(self.driver)
        self.bench.lacking, self.bench.reboots_hard = faults.lacking, faults.reboots_hard

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


class IronicConformance(OnIronic, ComputeDriverConformance, FaultConformance, IronicCase):
    pass


class GuardedIronicConformance(Guarded, ComputeDriverConformance, FaultConformance, IronicCase):
    pass
