"""The conformance kit on real engines, bare and behind all of kiln's guards."""

import os

from kiln.driver_manager import stack_settings
from kiln.stack import assemble
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from kiln.testing.conformance.building import Building
from kiln.testing.conformance.execution import Execution
from kiln.testing.conformance.files import Files
from kiln.testing.conformance.repeating import Repeating
from kiln.testing.conformance.watching import Watching
from tests.functional.docker.site import DockerBench, EngineCase


class OnEngine:
    """Shows each behaviour that an engine has a way to show.

    Not shown, with the reason in the run's output: quotas, which engines have not, and
    builds that fail or stall after they were accepted, which theirs do at once.
    """

    timeout_s = 180.0
    soon_s = 60.0

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


class GuardedPodmanConformance(
    Guarded, Building, Repeating, Execution, Files, Watching, EngineCase
):  # fmt: skip
    """Behind the guards on Podman, for what either of them could break."""

    engine_kind = 'podman'


# The whole kit once is enough, and three times more a matter for a soak.
if os.environ.get('KILN_FULL'):

    class GuardedDockerConformance(
        Guarded, ComputeDriverConformance, FaultConformance, EngineCase
    ):
        pass

    class PodmanConformance(OnEngine, ComputeDriverConformance, FaultConformance, EngineCase):
        engine_kind = 'podman'

    class WholeGuardedPodmanConformance(
        Guarded, ComputeDriverConformance, FaultConformance, EngineCase
    ):
        engine_kind = 'podman'
