"""A kiln site, used by commands, whose machines are containers with an engine inside."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import docker

from kiln.clusters.models import NodeState
from kiln.db.store import open_store
from tests.functional.engines import COMMAND, engine, make_network
from tests.functional.swarm.service import APP, node_image, running

ROOT = pathlib.Path(__file__).parents[3]
#: Longer than the start of two nodes in sequence: an engine that joins while its manager
#: is deleted can stay pending, and kiln then replaces it.
WAIT_S = 1800.0

CONF = """
[compute]
default_backend = containers
owner = {owner}
[compute:containers]
driver = docker
url = {url}
privileged = true
zones = az1,az2,az3
networks = {owner}
watch_interval = 0.5
[db]
url = sqlite:///{folder}/kiln.db
key_file = {folder}/keys
[clusters]
lease = 5
quiesce = 1
watch = 2
"""

PAGE = """
cluster: web
driver: swarm_debian_v1
server_type: {kind}
image: {image}
nodegroups:
  - name: managers
    role: control
    count: {managers}
    zones: spread
    parameters: {parameters}
    health: {health}
  - name: workers
    count: {workers}
    health: {health}
"""
#: A join token, or the key of a certificate, as text or in base64.
SECRET = 'SWMTKN-|PRIVATE KEY|UFJJVkFURSBLRV|BSSVZBVEUgS0VZ|QUklWQVRFIEtFW'
HEALTH = '{unhealthy_after: 1s, startup_timeout: 600s, max_unhealthy: 50%}'


def command(conf, *arguments):
    """Return the words of a command that writes a debug log beside its configuration."""
    log = ('--debug', '--log-file', str(conf.with_suffix('.log')))
    return [sys.executable, '-m', 'kiln.cli', '--config-file', str(conf), *log, *arguments]


def kiln(conf, *arguments, check=True):
    """Run a kiln command; return its output."""
    done = subprocess.run(
        command(conf, *arguments),
        cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    if check and done.returncode:
        raise AssertionError(f'kiln {" ".join(arguments)}: {done.stdout}\n{done.stderr}')
    return done.stdout


def conduct(conf, *options):
    """Start a conductor; the caller ends it."""
    return subprocess.Popen(
        command(conf, *options, 'conductor'),
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


class SwarmSite(unittest.TestCase):
    """One cluster for all tests of a class, complete before and after each test."""

    managers, workers = 3, 3
    #: The image of the nodes; None stands for an image that contains the service.
    kind, image = 'container', None
    kept = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = engine()
        cls.bare = docker.DockerClient(base_url=cls.place.url, timeout=WAIT_S)
        cls.addClassCleanup(cls.bare.close)
        cls.owner = f't{uuid.uuid4().hex[:8]}'
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.conf = cls.folder / 'kiln.conf'
        cls.conf.write_text(cls.configuration())
        kiln(cls.conf, 'image', 'build', 'swarm-node', '--max-age', '30d', '--into', 'containers')
        cls.addClassCleanup(cls.remove_what_is_left)
        cls.page = {'managers': cls.managers, 'workers': cls.workers, 'parameters': '{}',
                    'health': HEALTH, 'kind': cls.kind,
                    'image': cls.image or node_image(cls.bare, 1)}  # fmt: skip
        cls.up()

    @classmethod
    def configuration(cls):
        """Return the text of kiln.conf; create the backends that it names."""
        # Without a subnet, nodes would have other addresses after each restart.
        made = make_network(cls.bare.api, cls.owner)
        cls.addClassCleanup(cls.bare.api.remove_network, made)
        return CONF.format(owner=cls.owner, url=cls.place.url, folder=cls.folder)

    @classmethod
    def up(cls, *options, **changes):
        """Apply the last cluster file with some changes."""
        cls.page |= changes
        page = cls.folder / 'swarm.yaml'
        page.write_text(PAGE.format(**cls.page))
        return kiln(cls.conf, 'up', str(page), '--yes', *options)

    @classmethod
    def remove_what_is_left(cls):
        for one in cls.containers():
            one.remove(force=True, v=True)
        for one in cls.bare.images.list('kiln-tests/swarm-node'):
            cls.bare.images.remove(one.id, force=True)

    # ---- nodes according to the store, the engine and the Swarm -------------------

    @classmethod
    def containers(cls):
        mine = {'label': f'kiln.owner={cls.owner}'}
        # The list must not fail if a container is removed meanwhile.
        return cls.bare.containers.list(all=True, filters=mine, ignore_removed=True)

    @classmethod
    def store(cls):
        if cls.kept is None:
            cls.kept = open_store(f'sqlite:///{cls.folder}/kiln.db')
            cls.addClassCleanup(cls.kept.close)
        return cls.kept

    def nodes(self):
        """Return the nodes in the store that are not gone, by name."""
        nodes = self.store().nodes.of(self.store().clusters.get('web').id)
        return {one.name: one for one in nodes if one.state is not NodeState.GONE}

    def at_rest(self):
        """Return True if all nodes are ready and no operation is open."""
        ready = {one.state for one in self.nodes().values()} == {NodeState.READY}
        return ready and not self.store().operations.open(self.store().clusters.get('web').id)

    def container_of(self, node):
        """Return the container of a node; None if it does not exist."""
        try:
            return self.bare.containers.get(node.compute_id)
        except docker.errors.NotFound:
            return None

    def inside(self, container, *command):
        if container is None:
            return None
        try:
            status, output = container.exec_run(['docker', *command])
        except docker.errors.APIError:
            # The container is not running.
            return None
        return output.decode() if status == 0 else None

    def asked(self, *command):
        """Return the output of a docker command on a manager that has a quorum."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            for node in self.nodes().values():
                if node.group != 'managers' or node.state is not NodeState.READY:
                    continue
                said = self.inside(self.container_of(node), *command)
                if said is not None:
                    return said
            time.sleep(1)
        raise AssertionError(f'no manager answers {command}')

    def listed(self):
        lines = self.asked('node', 'ls', '--format', '{{json .}}').splitlines()
        return {one['Hostname']: one for one in map(json.loads, lines)}

    def assert_agreed(self, managers=None, workers=None):
        """Check that docker node ls, kiln's store and the engine list the same nodes."""
        managers = self.managers if managers is None else managers
        workers = self.workers if workers is None else workers
        listed = {}

        def ready():
            nonlocal listed
            # The output of a command in a container is sometimes lost.
            listed = self.listed()
            return {one['Status'] for one in listed.values()} == {'Ready'}

        # A new leader does not know the state of each node at once.
        self.until(ready, 'nodes stay on the list that are not ready')
        nodes = self.nodes()
        self.assertEqual({NodeState.READY}, {one.state for one in nodes.values()})
        self.assertEqual(set(nodes), set(listed))
        self.assertEqual(len(nodes), len(self.containers()))
        by_role = sorted(name for name, one in listed.items() if one['ManagerStatus'])
        self.assertEqual(
            by_role, sorted(name for name, one in nodes.items() if one.group == 'managers')
        )
        self.assertEqual((managers, workers), (len(by_role), len(nodes) - len(by_role)))

    def assert_no_log_tells_a_secret(self):
        logs = [log.read_text() for log in self.folder.glob('*.log')]
        self.assertIn(' DEBUG ', ''.join(logs))
        for text in logs:
            self.assertNotRegex(text, SECRET)

    def until(self, so, message):
        end = time.monotonic() + WAIT_S
        while not so():
            self.assertLess(time.monotonic(), end, message)
            time.sleep(0.5)

    # ---- a service ------------------------------------------------------------------

    def serve(self, replicas):
        """Deploy a service; return once all replicas run."""
        self.asked(
            'service', 'create', '--name', 'app', '--replicas', str(replicas), '--detach',
            '--no-resolve-image', '--stop-grace-period', '1s', '--endpoint-mode', 'dnsrr',
            '--restart-delay', '1s', APP, *COMMAND,
        )  # fmt: skip
        self.until(lambda: self.running() == replicas, 'the service does not come up')

    def running(self):
        """Return the number of running replicas, whatever the managers report."""
        return running(self.containers)


def crashes():
    """Return the number of kiln processes to kill."""
    return int(os.environ.get('KILN_SWARM_CRASHES', '2'))
