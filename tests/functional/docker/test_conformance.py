"""The conformance kit on real engines, bare and behind all of kiln's guards."""

import os

from kiln.driver_manager import stack_settings
from kiln.stack import assemble
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from kiln.testing.conformance.building import Building
from kiln.testing.conformance.deleting import Deleting
from kiln.testing.conformance.execution import Execution
from tests.functional.docker.site import DockerBench, EngineCase


class Essentials(Building, Deleting, Execution):
    """What a guard, or another engine, could break."""


#: Twice more the whole kit is a matter for a soak.
SOAK = bool(os.environ.get('KILN_FULL'))
AGAIN = ComputeDriverConformance if SOAK else Essentials


class OnEngine:
    """Shows each behaviour that an engine has a way to show.

    Not shown, with the reason in the run's output: quotas, which engines have not, and
    builds that fail or stall after they were accepted, which theirs do at once.
    """

    timeout_s = 30.0
    soon_s = 20.0

    def setUp(self):
        self.network_ids = (self.network,)
        super().setUp()

    def make_driver(self):
        # A container without a network is there in half the time; it can get none later.
        networks = [] if 'network' in self._testMethodName else ['none']
        return self.open_driver(networks=networks)

    def make_faults(self, driver):
        return DockerBench(driver, self)


class Guarded(OnEngine):
    """Through executor, circuits and all."""

    def make_driver(self):
        stack = assemble(super().make_driver(), stack_settings(self.options()))
        self.addCleanup(stack.close, 5)
        return stack.executor


class DockerConformance(OnEngine, ComputeDriverConformance, FaultConformance, EngineCase):
    """The driver as it is."""


class GuardedDockerConformance(Guarded, AGAIN, FaultConformance, EngineCase):
    """The same behind the guards."""


class PodmanConformance(OnEngine, ComputeDriverConformance, FaultConformance, EngineCase):
    """The driver as it is, on Podman."""

    engine_kind = 'podman'


if SOAK:

    class GuardedPodmanConformance(Guarded, AGAIN, FaultConformance, EngineCase):
        """The same behind the guards."""

        engine_kind = 'podman'
