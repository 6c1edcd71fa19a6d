"""Conformance kit on the real Ironic, for the bare driver and behind all wrappers."""

import os

from kiln.compute.backends import stack_settings
from kiln.compute.stack import assemble
from kiln.models import ImageFacts
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from kiln.testing.conformance.behaviours.building import Building
from kiln.testing.conformance.behaviours.deleting import Deleting
from kiln.testing.conformance.behaviours.execution import Execution
from kiln.testing.conformance.behaviours.finding import Finding
from kiln.testing.conformance.behaviours.states import States
from tests.functional.ironic.site import IMAGE, IronicBench, IronicCase

OTHER_IMAGE = IMAGE.replace('none', 'other')


class OnIronic:
    """Tests each behaviour that can be caused in Ironic."""

    timeout_s = 120.0
    soon_s = 60.0
    images = (
        ImageFacts(id=IMAGE), ImageFacts(id=OTHER_IMAGE),
    )  # fmt: skip

    def make_driver(self):
        return self.open_driver(page_size=4)

    def make_faults(self, driver):
        return IronicBench(driver, self)


class Guarded(OnIronic):
    """Through the executor, the circuits and all other wrappers."""

    def make_driver(self):
        stack = assemble(super().make_driver(), stack_settings(self.options()))
        self.addCleanup(stack.close, 5)
        return stack.executor


class IronicConformance(
    OnIronic, Building, Deleting, Execution, Finding, FaultConformance, IronicCase
):
    """The bare driver, for the behaviours that involve Ironic most."""


class GuardedIronicConformance(Guarded, Building, States, IronicCase):
    """Behind the wrappers, for the behaviours that they could break."""


# The whole kit takes half an hour for each.
if os.environ.get('KILN_FULL'):

    class WholeIronicConformance(OnIronic, ComputeDriverConformance, FaultConformance, IronicCase):
        pass

    class GuardedWholeIronicConformance(
        Guarded, ComputeDriverConformance, FaultConformance, IronicCase
    ):
        pass
