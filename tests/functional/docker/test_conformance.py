"""The conformance kit on real engines, with and without kiln's guards."""

import io
import os
import tarfile

from kiln.compute.backends import stack_settings
from kiln.compute.stack import assemble
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.docker import names
from kiln.compute_drivers.docker.building import seed
from kiln.models import ImageFacts, InjectedFile, Resource
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from kiln.testing.conformance.behaviours.arguments import Files
from kiln.testing.conformance.behaviours.building import Building
from kiln.testing.conformance.behaviours.execution import Execution
from kiln.testing.conformance.behaviours.repeating import Repeating
from kiln.testing.conformance.behaviours.watching import Watching
from tests.functional.docker.site import DockerBench, EngineCase, plain_image

_NETWORKING = {AmphoraComputeDriver.attach_network, AmphoraComputeDriver.detach_network}


#: The accounts of the plain image, as /etc/passwd and /etc/group there have them.
_ACCOUNTS = {'root': (0, 0), 'web': (33, 44), 'web:www': (33, 44)}


def facts(file):
    """Return a file of a build as the engine has it."""
    return file.content, file.mode, _ACCOUNTS[file.owner]


class OnEngine:
    """Each behaviour that can be shown on an engine.

    Not shown, with the reason in the run's output: quotas, which engines do not have, and
    builds that fail or stall after they were accepted, as engines fail at once.
    """

    timeout_s = 180.0
    soon_s = 60.0

    def setUp(self):
        self.network_ids = (self.network,)
        told = {'os_distro': 'debian'}
        image_id = plain_image(self.place.url, 'kiln-tests/told:1', **told)
        self.images = (ImageFacts(id=image_id, properties=told), ImageFacts(id=self.image_id))
        super().setUp()
        # The command of a plain container says that it is up, each time; Podman loses output.
        self.bench.logs_boots = self.engine_kind == 'docker'
        self.bench.image_account, self.bench.lacking = 'web:www', self.lacking

    def lacking(self, amphora_id, request):
        """Compare the files in a container with those of a build, by number of owner."""
        files = [*request.files]
        if request.user_data is not None:
            files.append(InjectedFile(path=seed.USER_DATA, content=request.user_data, mode=0o600))
        wrong = [file.path for file in files if self.file_in(amphora_id, file.path) != facts(file)]
        return {'user_data' if path == seed.USER_DATA else 'files' for path in wrong}

    def file_in(self, amphora_id, path):
        blocks, _ = self.bare.get_archive(amphora_id, path)
        with tarfile.open(fileobj=io.BytesIO(b''.join(blocks))) as tar:
            member = tar.next()
            content = tar.extractfile(member).read()
        return content, member.mode & 0o7777, (member.uid, member.gid)

    def make_resources(self):
        volume = self.bare.create_volume(labels={names.OWNER: self.owner})['Name']
        return [Resource(kind='volume', id=volume, owner=self.owner)]

    def make_driver(self):
        # A container without a network starts in half the time; networks cannot follow later.
        used = getattr(getattr(self, self._testMethodName), 'contract', ())
        networks = ['none'] if _NETWORKING.isdisjoint(used) else []
        return self.open_driver(networks=networks)

    def make_faults(self, driver):
        return DockerBench(driver, self)


class Guarded(OnEngine):
    """Through the executor, circuit breakers and all other guards."""

    def make_driver(self):
        stack = assemble(super().make_driver(), stack_settings(self.options()))
        self.addCleanup(stack.close, 5)
        return stack.executor


class DockerConformance(OnEngine, ComputeDriverConformance, FaultConformance, EngineCase):
    """The driver without guards."""


class GuardedPodmanConformance(
    Guarded, Building, Repeating, Execution, Files, Watching, EngineCase
):  # fmt: skip
    """Podman behind the guards, for interactions of the two."""

    engine_kind = 'podman'


# The whole kit runs once; the other three combinations are for soak runs.
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
