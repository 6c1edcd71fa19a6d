"""Conductors that are killed with -9, with a played Heat; no OpenStack is needed.

KILN_HEAT_KILLS is the number of conductors that are killed, and has both drivers judged.
"""

import os
import threading

from tests.functional.heat import killing
from tests.unit.cluster_drivers.heat.fake_heat import SERVER, FakeHeat

SOAK = 'KILN_HEAT_KILLS' in os.environ
#: Real seconds between two pieces of work, and the seconds of work in each.
STEP_S, WORK_S = 0.1, 0.5


class PlayedKills(killing.Killing):
    kills = int(os.environ.get('KILN_HEAT_KILLS', '2'))
    longest_s = 8.0

    def setUp(self):
        self.heat = self.enterContext(FakeHeat())
        self.over = threading.Event()
        worker = threading.Thread(target=self._work)
        worker.start()
        self.addCleanup(worker.join)
        self.addCleanup(self.over.set)
        super().setUp()

    def _work(self):
        while not self.over.wait(STEP_S):
            self.heat.work(WORK_S)

    def credentials(self):
        return f'auth_type: none\norchestration_endpoint_override: {self.heat.url}\n'

    def stacks(self):
        return [
            (one['name'], f'{one["action"]}_{one["status"]}') for one in self.heat.stacks.values()
        ]

    def servers(self):
        live = [one for stack in self.heat.stacks.values() for one in stack['live'].values()]
        return sum(one['type'] == SERVER for one in live)


if SOAK:

    class PlayedGroupKills(PlayedKills):
        driver = 'heat_group_v1'
