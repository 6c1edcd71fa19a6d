"""The engine of Heat is killed with -9 while it works, and conductors are, too.

KILN_HEAT_ENGINE_KILLS is the number of engines that are killed; a soak uses 10.
"""

import os
import signal

from tests.functional.heat import real_kills
from tools.devcloud.place import Place
from tools.devcloud.processes import Supervisor
from tools.devcloud.wishes import Wishes

#: The process of the cloud that works on stacks.
ENGINE = 'heat-engine'


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

    def test_whatever_is_killed_each_cluster_ends_as_wanted_and_nothing_else_is_left(self):
        while self.engines_killed < self.engine_kills:
            self.live()
