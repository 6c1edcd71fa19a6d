"""The engine of Heat is killed with -9 while it works, and conductors are, too.

A server that Nova has accepted in that moment is lost to Heat. The tests then do what the
guide tells operators: they delete it, and retry.

KILN_HEAT_ENGINE_KILLS is the number of engines that are killed; a soak uses 10.
"""

import os
import signal
import time

from kiln.clusters.models import OperationState
from tests.functional.heat import killing, real_kills
from tests.functional.heat.bench import ask, servers, stacks
from tools.devcloud.place import Place
from tools.devcloud.processes import Supervisor
from tools.devcloud.wishes import Wishes

#: The process of the cloud that works on stacks.
ENGINE = 'heat-engine'
#: What Nova says if a lost server has the port of a node.
HELD = 'still in use'


class EngineKills(real_kills.RealKilling):
    kills = 1
    engine_kills = int(os.environ.get('KILN_HEAT_ENGINE_KILLS', '1'))

    def setUp(self):
        super().setUp()
        self.engines_killed = 0
        base_port = Wishes.load(self.cloud.home / 'wishes.json').base_port
        self.supervisor = Supervisor(Place(self.cloud.home, base_port))
        self.addCleanup(self.cloud.run, 'up')

    def strike(self):
        if self.engines_killed < self.engine_kills:
            self.engines_killed += 1
            # Its workers, too: it has a session of its own.
            os.killpg(self.supervisor.find(ENGINE).pid, signal.SIGKILL)
            self.cloud.run('up')

    def is_open(self, operation):
        found = self.found(operation)
        if found.state is OperationState.FAILED and HELD in found.cause.message:
            self.assertNotEqual(0, self.delete_lost(), found.cause)
            self.site.clusters.retry(found.cluster_id)
            return True
        return super().is_open(operation)

    def right(self, counts):
        # A cluster can have been deleted before Heat missed the server.
        self.delete_lost()
        super().right(counts)

    def delete_lost(self):
        """Delete the servers of the project that no stack has; return their number."""
        known = {
            one['physical_resource_id'] for stack in stacks(killing.SITE) for one in servers(stack)
        }
        lost = {one['id'] for one in ask('/servers', service='compute')['servers']} - known
        for one in lost:
            print(f'server {one} was lost')
            ask(f'/servers/{one}', 'DELETE', service='compute')
        end = time.monotonic() + killing.WAIT_S
        while lost & {one['id'] for one in ask('/servers', service='compute')['servers']}:
            self.assertLess(time.monotonic(), end, lost)
            time.sleep(0.5)
        return len(lost)

    def test_whatever_is_killed_each_cluster_ends_as_wanted_and_nothing_else_is_left(self):
        while self.engines_killed < self.engine_kills:
            self.live()
