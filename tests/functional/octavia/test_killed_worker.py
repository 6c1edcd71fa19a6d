"""The worker dies in the middle of a build, and another one starts."""

import pathlib
import subprocess
import tempfile
import time

from kiln.testing.proxy import Hang, LoseAnswer
from tests.functional.circuit.test_circuit_redis import RedisServer
from tests.functional.nova.site import Knob
from tests.functional.octavia.site import OctaviaCase
from tools.devcloud.settings import render

CLAIM_S = 5


class WithoutJobboard(OctaviaCase):
    def test_a_load_balancer_that_nobody_works_on_any_more_is_made_good_by_a_failover(self):
        self.proxy.fault(Knob('spawn_delay', '6'), 'POST', '/servers', times=1)
        identity = self.create('left alone')
        self.eventually(lambda: self.compute_ids(identity) and self.servers())
        self.worker.kill()
        self.eventually(lambda: self.servers()[0]['status'] == 'ACTIVE')
        self.worker.start()
        time.sleep(3)
        # No worker knows of it; Octavia's guide says to set it by hand.
        self.assertEqual('PENDING_CREATE', self.status(identity))
        self.database.query(
            "update octavia.load_balancer set provisioning_status = 'ERROR' "
            f"where id = '{identity}'"
        )
        self.failover(identity)
        self.assertEqual('ACTIVE', self.settled(identity))
        self.assert_served(identity)
        self.delete(identity)
        self.assertIsNone(self.settled(identity))
        self.assert_nothing_left()

    def compute_ids(self, identity):
        rows = self.database.query(
            f"select compute_id from octavia.amphora where load_balancer_id = '{identity}' "
            'and compute_id is not null'
        )
        return [row[0] for row in rows]


class WithJobboard(OctaviaCase):
    @classmethod
    def prepare(cls):
        """Give the worker a board of jobs, and a memory of flows, that outlive it."""
        board = RedisServer()
        cls.addClassCleanup(board.close)
        cls.cloud.run('up', '--octavia-package', 'redis')
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        flows = {
            'jobboard_enabled': True,
            'jobboard_backend_port': board.port,
            'jobboard_expiration_time': CLAIM_S,
            'persistence_connection': f'sqlite:///{folder}/flows',
        }
        cls.options = {'task_flow': flows}
        config = folder / 'octavia.conf'
        config.write_text(render(cls.options))
        programs = cls.cloud.home / 'octavia-venv' / 'bin'
        command = ('octavia-db-manage', '--config-file', config, 'upgrade_persistence')
        subprocess.run(
            [programs / 'python', '-W', 'ignore', programs / command[0], *command[1:]], check=True
        )

    def test_the_worker_that_takes_over_adopts_the_server_that_the_dead_one_asked_for(self):
        self.proxy.fault(LoseAnswer(Hang()), 'POST', '/servers', times=1)
        identity = self.create('taken over')
        # Nova has made it, and the worker dies before it knows.
        self.eventually(self.servers)
        self.worker.kill()
        (server,) = self.servers()
        self.proxy.release()
        self.worker.start()
        self.assertEqual('ACTIVE', self.settled(identity))
        (amphora,) = self.amphorae(identity)
        self.assertEqual(server['id'], amphora['compute_id'])
        self.assert_served(identity)
        self.delete(identity)
        self.assertIsNone(self.settled(identity))
        self.assert_nothing_left()
