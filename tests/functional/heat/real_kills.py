"""Sites of conductors on the real Heat, and kill runs there."""

from tests.functional.cloud import CloudTestCase
from tests.functional.heat import killing
from tests.functional.heat.bench import ask, credentials, stacks


class OnRealHeat(CloudTestCase):
    """A site on the real Heat, in a project of this process alone."""

    services = ('heat',)
    alone = False

    def setUp(self):
        super().setUp()
        # Tests before this one have left them to the cloud, and they go sooner or later.
        self.left = self.server_ids()

    def credentials(self):
        return credentials()

    def stacks(self):
        return [(one['stack_name'], one['stack_status']) for one in stacks(killing.SITE)]

    def servers(self):
        # The project has nothing else, so a server without a stack is found here.
        return len(self.server_ids() - self.left)

    def server_ids(self):
        return {one['id'] for one in ask('/servers', service='compute')['servers']}


class RealKilling(OnRealHeat, killing.Killing):
    """Clusters on the real Heat."""

    names = ('east',)
