"""A real Swarm of containers with engines inside, during changes and failures."""

import functools
import itertools
import json
import os
import signal
import socket
import ssl
import subprocess
import time

from tests.functional.engines import run
from tests.functional.swarm.dying import Kills
from tests.functional.swarm.service import BASE, Watching, node_image
from tests.functional.swarm.site import WAIT_S, SwarmSite, conduct, crashes, kiln
from tools.devengine.engine import Engine

REPLICAS = 4
#: The number of tests that kill kiln while the Swarm changes.
DISTURBANCES = 5
#: The signal that ends the engine under a Swarm, and whether kiln is killed too. SIGKILL
#: is like a power cut; soaks also use SIGTERM, and a kill of both.
ENDS = ((signal.SIGKILL, False), (signal.SIGTERM, False), (signal.SIGKILL, True))
ENDS = ENDS if os.environ.get('KILN_FULL') else ENDS[:1]
AWAY_S = 3.0
OPENED = 'closed -> open'
PATIENT = '{unhealthy_after: 30s, startup_timeout: 600s, max_unhealthy: 50%}'


class Swarm(SwarmSite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        site = cls('test_every_node_is_active_and_labelled_with_its_id_and_group')
        site.assert_agreed()
        site.serve(REPLICAS)

    def setUp(self):
        self.until(lambda: self.running() == REPLICAS, 'the service is not whole')

    def tearDown(self):
        self.assert_agreed()
        self.assert_no_log_tells_a_secret()

    def a_node(self, group, index=0):
        return sorted(
            (one for one in self.nodes().values() if one.group == group),
            key=lambda one: one.name,
        )[index]

    # ---- content of a Swarm ------------------------------------------------------------

    def test_every_node_is_active_and_labelled_with_its_id_and_group(self):
        self.assertEqual({'Active'}, {one['Availability'] for one in self.listed().values()})
        for node in self.nodes().values():
            said = json.loads(self.asked('node', 'inspect', node.name))
            labels = said[0]['Spec']['Labels']
            self.assertEqual(node.id, labels['kiln.node'])
            self.assertEqual(node.group, labels['kiln.group'])

    def test_an_engine_rejects_clients_without_a_certificate(self):
        anybody = ssl.create_default_context()
        anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
        address = self.a_node('workers').address
        with (
            socket.create_connection((address, 2376), WAIT_S) as plain,
            self.assertRaisesRegex(OSError, 'certificate required|bad certificate'),
            anybody.wrap_socket(plain) as line,
        ):
            line.sendall(b'GET /info HTTP/1.0\r\n\r\n')
            line.recv(1)

    def test_a_machine_has_no_join_token_and_its_key_is_private(self):
        container = self.container_of(self.a_node('workers'))
        tokens = self.asked('swarm', 'join-token', '-q', 'worker').strip()
        said = container.exec_run(['sh', '-c', 'grep -rl SWMTKN /etc /var/lib/cloud /root']).output
        self.assertNotIn(b'/', said.replace(b'grep:', b'').strip() or b'')
        self.assertTrue(tokens.startswith('SWMTKN'))
        mode = container.exec_run(['stat', '-c', '%a', '/etc/kiln-swarm/authority.pem']).output
        self.assertEqual(b'600', mode.strip())

    def test_001_5_verbs_report_on_the_swarm_and_make_a_docker_context(self):
        self.assertEqual(set(self.nodes()), set(self.verb('nodes')))
        self.assertEqual({'app': REPLICAS}, self.verb('services'))
        used = self.token()
        self.verb('tokens')
        self.assertNotEqual(used, self.token())
        self.verb('certificates')
        folder = self.folder / 'context'
        said = self.verb('context', f'to={folder}', 'days=1')
        environment = {**os.environ, 'DOCKER_CONFIG': str(self.folder / 'docker')}
        for words in (said['import'].split()[1:], ['--context', 'web', 'node', 'ls', '-q']):
            done = subprocess.run(
                ['docker', *words], env=environment, capture_output=True, text=True, check=True
            )
        self.assertEqual(len(self.nodes()), len(done.stdout.split()))

    def verb(self, name, *arguments):
        words = ('x', 'swarm_debian_v1', name, 'web', *arguments, '-f', 'json')
        return json.loads(kiln(self.conf, *words))

    def test_an_even_number_of_managers_is_refused_before_any_change(self):
        before = self.nodes()
        said = kiln(self.conf, 'cluster', 'scale', 'web', 'managers=2', '--yes', check=False)
        self.assertNotIn('succeeded', said)
        self.assertEqual(before, self.nodes())

    def token(self):
        return self.asked('swarm', 'join-token', '-q', 'worker').strip()

    def joined_with(self, token):
        """Return the output of a foreign engine that tries to join with a used token."""
        address = self.a_node('managers').address
        script = (
            'dockerd >/dev/null 2>&1 & until docker info >/dev/null 2>&1; do sleep 0.2; done; '
            f'docker swarm join --token {token} {address}:2377'
        )
        said = self.bare.containers.run(
            BASE, ['/bin/sh', '-c', f'{script} 2>&1 || true'], privileged=True, remove=True,
            tmpfs={'/run': '', '/var/lib/docker': ''}, network=self.owner,
        )  # fmt: skip
        return said.decode()

    # ---- changes and failures, while kiln is killed and restarted ------------------------

    def disturb(self, begin, is_over, groups=1):
        """Start a change and kill kiln during it; repeat until this test has done its kills.

        Never more replicas are down than those of the nodes that are taken at a time, one of
        each group.
        """
        kills = Kills(-(-crashes() // DISTURBANCES), f'{self.seed}.{self.id()}')
        for turn in itertools.count(1):
            with Watching(self) as seen:
                over = functools.partial(is_over, begin(turn))
                killed = kills.go_on(lambda: conduct(self.conf), over)
                last = conduct(self.conf)
                try:
                    self.until(over, f'it does not come to its end, turn {turn}')
                    # An interrupted join leaves an entry, which kiln removes.
                    self.assert_agreed()
                finally:
                    last.terminate()
                    last.wait(WAIT_S)
                self.until(lambda: self.running() == REPLICAS, 'the service is not whole')
            print(
                f'{self._testMethodName}: turn {turn}, {killed} killed, {seen.looks} looks, '
                f'{seen.fewest} of {REPLICAS} ran at least, {seen.fullest} at most on a node'
            )
            self.assertGreaterEqual(seen.fewest, REPLICAS - groups * seen.fullest)
            self.assertLessEqual(seen.leaving, 1)
            if not kills.left:
                return

    seed = os.environ.get('KILN_SWARM_SEED', '7')

    def _whole(self):
        return len(self.nodes()) == self.managers + self.workers and self.at_rest()

    def is_replaced(self, victims):
        return victims.isdisjoint(self.nodes()) and self._whole()

    def test_a_worker_is_removed_and_another_joins_with_a_new_token(self):
        def begin(turn):
            victim = self.a_node('workers', 1).name
            kiln(self.conf, 'node', 'remove', 'web', victim, '--yes', '--no-wait')
            return victim

        def is_over(victim):
            if victim in self.nodes() or not self.at_rest():
                return False
            if len(self.nodes()) == self.managers + self.workers:
                return True
            kiln(self.conf, 'cluster', 'scale', 'web', f'workers={self.workers}', '--yes',
                 '--no-wait')  # fmt: skip
            return False

        used = self.token()
        self.disturb(begin, is_over)
        self.assertNotEqual(used, self.token())
        self.assertIn('valid join token is necessary', self.joined_with(used))

    def test_a_worker_that_dies_is_replaced(self):
        self._die('workers', groups=1)

    def test_a_manager_that_dies_is_replaced(self):
        # On a busy machine, a worker can be late at the new leader, which reports it as down.
        self._die('managers', groups=2)

    def _die(self, group, groups):
        def begin(turn):
            victim = self.a_node(group, turn % 3)
            self.container_of(victim).kill('SIGKILL')
            return {victim.name}

        self.disturb(begin, self.is_replaced, groups)

    def test_managers_are_replaced_one_by_one_and_workers_stay(self):
        workers = {name for name, one in self.nodes().items() if one.group == 'workers'}

        def begin(turn):
            self.up('--no-wait', parameters=f'{{log_max_files: {3 + turn}}}')
            return {name for name in self.nodes() if name not in workers}

        self.disturb(begin, self.is_replaced)
        self.assertLess(workers, set(self.nodes()))

    def test_a_change_of_the_image_replaces_every_node(self):
        def begin(turn):
            old = set(self.nodes())
            self.up('--no-wait', image=node_image(self.bare, 1 + turn))
            return old

        (before,) = self.images()
        # A manager and a worker at a time.
        self.disturb(begin, self.is_replaced, groups=2)
        (after,) = self.images()
        self.assertNotEqual(before, after)

    def images(self):
        """Return the ids of the images that the nodes are made from."""
        return {one.attrs['Image'] for one in self.containers()}

    def test_the_swarm_is_unchanged_after_a_restart_of_the_engine_under_it(self):
        if len(ENDS) > 1:
            # After SIGTERM the engine stops its containers first and reports that.
            self.up(health=PATIENT)
        for number, (end, kiln_too) in enumerate(ENDS):
            log = self.folder / f'conductor-{number}.log'
            conductor = conduct(self.conf, '--log-file', str(log))
            try:
                self.until(log.exists, 'the conductor does not start')
                before = self.nodes()
                self._outage(end, log, before)
                if kiln_too:
                    conductor.kill()
                    conductor.wait()
                    conductor = conduct(self.conf)
                self._is_as_before(before)
            finally:
                conductor.terminate()
                conductor.wait(WAIT_S)

    def _outage(self, end, log, before):
        outer = Engine(self.place)
        os.kill(outer.engine_pid(), end)
        try:
            self.until(lambda: OPENED in log.read_text(), 'the circuit stays closed')
            # Longer than the time after which a dead node is replaced.
            time.sleep(AWAY_S)
            self.assertFalse(outer.answers())
            self.assertEqual(set(before), set(self.nodes()))
            if end is signal.SIGKILL:
                # After SIGTERM the engine reports the end of each container before its own.
                self.assertEqual(before, self.nodes())
        finally:
            run('docker', 'up')

    def _is_as_before(self, before):
        self.until(lambda: self.running() == REPLICAS, 'the service does not run again')
        self.until(self._whole, 'it does not come to rest')
        self.assert_agreed()
        after = self.nodes()
        self.assertEqual(
            {name: (one.compute_id, one.address) for name, one in before.items()},
            {name: (one.compute_id, one.address) for name, one in after.items()},
        )


class Deletion(SwarmSite):
    managers, workers = 1, 1

    def test_the_delete_of_a_cluster_removes_its_containers_and_volumes(self):
        volumes = {one.name for one in self.bare.volumes.list()}
        kiln(self.conf, 'cluster', 'delete', 'web', '--yes')
        self.assertEqual([], self.containers())
        left = {one.name for one in self.bare.volumes.list()}
        self.assertLess(left, volumes)
