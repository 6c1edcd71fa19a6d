"""Sites of conductors on the real Heat, and kill runs there."""

from tests.functional.cloud import CloudTestCase
from tests.functional.heat import killing
from tests.functional.heat.bench import ask, credentials, stacks


class OnRealHeat(CloudTestCase):
    """A site on the real Heat, in a project of this process alone."""

    services = ('heat',)
    alone = False

    def credentials(self):
        return credentials()

    def stacks(self):
        return [(one['stack_name'], one['stack_status']) for one in stacks(killing.SITE)]

    def servers(self):
        # The project has nothing else, so a server without a stack is found here.
        return len(ask('/servers', service='compute')['servers'])


class RealKilling(OnRealHeat, killing.Killing):
    """Clusters on the real Heat."""

    names = ('east',)
