"""Octavia worker with a jobboard and with Nova's notifications."""

import pathlib
import subprocess
import tempfile
import time

from kiln.testing.proxy import Hang, LoseAnswer
from tests.functional.circuit.test_circuit_redis import RedisServer
from tests.functional.nova.notify import notify
from tests.functional.octavia.site import OctaviaCase
from tools.devcloud.settings import render

CLAIM_S = 5
#: Seconds after which Nova is polled anyway, in case a message was lost.
ASKED_S = 60

#: Housekeeping that runs each second, and purges rows that were deleted a second ago.
FORGETFUL = {
    'house_keeping': {
        'cleanup_interval': 1, 'amphora_expiry_age': 1, 'load_balancer_expiry_age': 1,
    },
}  # fmt: skip


class WithBoardAndBus(OctaviaCase):
    @classmethod
    def prepare(cls):
        """Give the worker a jobboard and a flow storage that outlive it."""
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
        bus = {'notification_url': notify(cls.cloud)}
        cls.options = {'task_flow': flows, 'compute:nova': bus}
        config = folder / 'octavia.conf'
        config.write_text(render({'task_flow': flows}))
        programs = cls.cloud.home / 'octavia-venv' / 'bin'
        command = ('octavia-db-manage', '--config-file', config, 'upgrade_persistence')
        subprocess.run(
            [programs / 'python', '-W', 'ignore', programs / command[0], *command[1:]], check=True
        )

    def test_the_next_worker_adopts_the_server_that_the_dead_worker_requested(self):
        self.proxy.fault(LoseAnswer(Hang()), 'POST', '/servers', times=1)
        identity = self.create('taken over')
        # Nova has created the server, and the worker dies before it gets the answer.
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

    def test_a_worker_that_stops_while_it_repeats_a_build_leaves_the_server_in_place(self):
        self.proxy.fault(LoseAnswer(Hang()), 'POST', '/servers', times=1)
        identity = self.create('repeated')
        self.eventually(self.servers)
        self.worker.kill()
        (server,) = self.servers()
        self.eventually(lambda: self.servers()[0]['status'] == 'ACTIVE')
        # Each of the next workers repeats the build, and stops while it searches for the server.
        for end in (self.worker.kill, self.worker.stop):
            self.proxy.release()
            look = self.proxy.fault(Hang(), 'GET', '/servers/detail', times=1)
            self.worker.start()
            self.eventually(lambda look=look: look.hits)
            end()
        self.proxy.release()
        self.worker.start()
        self.assertEqual('ACTIVE', self.settled(identity))
        (amphora,) = self.amphorae(identity)
        self.assertEqual(server['id'], amphora['compute_id'])
        self.assert_served(identity)
        self.assertEqual(1, self.proxy.count('POST', '/servers'))
        self.delete(identity)
        self.assertIsNone(self.settled(identity))
        self.assert_nothing_left()

    def test_a_failover_continues_with_the_server_that_a_dead_worker_requested(self):
        keeper = self.new_program('octavia-housekeeping', self.compute_driver, **FORGETFUL)
        self.addCleanup(keeper.stop)
        keeper.start()
        identity = self.create('failed over')
        self.assertEqual('ACTIVE', self.settled(identity))
        (first,) = self.amphorae(identity)
        self.proxy.fault(LoseAnswer(Hang()), 'POST', '/servers', times=1)
        self.failover(identity)
        self.eventually(lambda: self.servers_but(first))
        (server,) = self.servers_but(first)
        self.worker.kill()
        self.proxy.release()
        self.worker.start()
        self.assertEqual('ACTIVE', self.settled(identity))
        # Octavia 19 does not pass the replaced amphora to the next worker (its flow removes
        # it from the list that is then saved), so its server stays as well.
        self.assertEqual({server}, self.servers_but(first))
        self.assertIn(server, [one['compute_id'] for one in self.amphorae(identity)])
        # An undisturbed failover leaves one amphora; housekeeping purges the others.
        self.failover(identity)
        self.assertEqual('ACTIVE', self.settled(identity))
        self.eventually(lambda: len(self.rows(identity)) == 1)
        self.assert_served(identity)
        self.delete(identity)
        self.assertIsNone(self.settled(identity))
        self.eventually(lambda: self.rows(identity) == [])
        self.assert_nothing_left()

    def rows(self, identity):
        """Return the ids of a load balancer's amphorae in the database."""
        found = self.database.query(
            f"select id from octavia.amphora where load_balancer_id = '{identity}'"
        )
        return [row[0] for row in found]

    def servers_but(self, amphora):
        return {server['id'] for server in self.servers()} - {amphora['compute_id']}

    def test_load_balancers_are_built_without_polls_of_their_amphorae(self):
        began = time.monotonic()
        made = [self.create(f'told-{number}') for number in range(2)]
        self.all_settle(made, 'ACTIVE')
        self.assertEqual(2, self.proxy.count('POST', '/servers'))
        # One poll before the bus is connected, and one after.
        looks = self.proxy.count('GET', '/servers/detail')
        self.assertLessEqual(looks, 2 + (time.monotonic() - began) / ASKED_S)
        for identity in made:
            self.delete(identity)
        self.all_settle(made, None)
        self.assert_nothing_left()
        self.assertIn(b'Listening to notifications of Nova at', self.worker.log.read_bytes())
