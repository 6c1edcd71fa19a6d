"""What judges mutants of the Docker driver, for ``kiln driver mutate``.

The whole kit, on an engine in memory: a real one takes minutes for a mutant that survives.
"""

import docker

from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from kiln.testing.proxy import FaultProxy
from tests.functional.docker.simulated.server import Server
from tests.functional.docker.site import EngineCase, plain_image
from tests.functional.docker.test_conformance import OnEngine


class SimulatedCase(EngineCase):
    """Drivers on an engine in memory, all through one proxy unless they bypass it."""

    @classmethod
    def setUpClass(cls):
        cls.place = Server()
        cls.addClassCleanup(cls.place.close)
        cls.image_id = plain_image(cls.place.url)
        cls.proxy = FaultProxy(cls.place.url)
        cls.proxy.start()
        cls.addClassCleanup(cls.proxy.close)
        cls.bare = docker.APIClient(base_url=cls.place.url, version='auto')
        cls.addClassCleanup(cls.bare.close)
        cls.network = cls.make_network()


class MutantConformance(OnEngine, ComputeDriverConformance, FaultConformance, SimulatedCase):
    """The driver without guards; what a mutant never does is not waited for so long."""

    timeout_s = 10.0
    soon_s = 10.0

    def setUp(self):
        super().setUp()
        self.bench.reboots_hard = self.reboots_hard

    def reboots_hard(self, amphora_id):
        """Return what only an engine in memory tells of a reboot."""

        def asked():
            container = self.place.engine.container(amphora_id)
            grace_s, container.grace_s = container.grace_s, None
            return grace_s

        return self.becomes(asked, lambda grace_s: grace_s is not None) == 0
