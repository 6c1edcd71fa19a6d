"""The development engine: start, kill, restart, and a stop that leaves nothing."""

import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import docker

from tests.functional.docker.site import PLAIN, plain_image
from tools.devengine import host
from tools.devengine.engine import Engine
from tools.devengine.place import Place


def machine():
    """Return the settings of a machine that an engine can change."""
    rules = [
        subprocess.run(['iptables', '-t', table, '-S'], capture_output=True, text=True, check=True)
        for table in ('filter', 'nat')
    ]
    mounts = pathlib.Path('/proc/mounts').read_text().splitlines()
    return {
        'forwarding': pathlib.Path('/proc/sys/net/ipv4/ip_forward').read_text(),
        'inotify': pathlib.Path('/proc/sys/fs/inotify/max_user_instances').read_text(),
        'links': sorted(os.listdir('/sys/class/net')),
        'mounts': sorted(one.split()[1] for one in mounts if 'kiln' in one),
        'rules': sorted(line for one in rules for line in one.stdout.splitlines()),
    }


class Engines(unittest.TestCase):
    kind = 'docker'

    def setUp(self):
        home = self.enterContext(tempfile.TemporaryDirectory(prefix='kiln-engine-'))
        self.engine = Engine(Place(pathlib.Path(home), self.kind))
        self.addCleanup(self.engine.down, wipe=True)
        # Other engines can start and stop meanwhile: check only what belongs to this engine.
        self.own = (self.engine.place.bridge, str(home))


class Lifecycle(Engines):
    def work(self):
        """Run a container and create a network on the engine."""
        url = self.engine.place.url
        plain_image(url)
        client = docker.APIClient(base_url=url, version='auto')
        made = client.create_container_from_config({'Image': PLAIN}, name='one-1')
        client.start(made['Id'])
        client.create_network('two')
        client.close()

    def test_down_leaves_nothing_behind(self):
        self.engine.up()
        self.work()
        running = self.engine.running()
        self.engine.down()
        self.assertIsNone(self.engine.running())
        self.assertFalse(pathlib.Path(f'/proc/{running.pid}').exists())
        self.assertFalse([one for one in machine()['mounts'] if self.own[1] in one])
        self.assertNotIn(self.own[0], ' '.join([*machine()['rules'], *machine()['links']]))

    def test_the_last_engine_restores_what_the_first_engine_found(self):
        notes = host.NOTES / 'notes.json'
        if notes.exists() and '"up": {}' not in notes.read_text():
            # Another engine is up, and will be the last one to stop.
            self.assertIn('before', notes.read_text())
            return
        before = machine()
        self.engine.up()
        # Podman creates its bridge with the first container.
        self.work()
        self.assertNotEqual(before['links'], machine()['links'])
        self.engine.down()
        self.assertEqual(before, machine())

    def test_a_repeated_up_keeps_a_running_engine_and_restarts_a_killed_one(self):
        self.engine.up()
        first = self.engine.engine_pid()
        self.engine.up()
        self.assertEqual(first, self.engine.engine_pid())
        os.kill(first, signal.SIGKILL)
        self.engine.up()
        self.assertTrue(self.engine.answers())
        self.assertNotEqual(first, self.engine.engine_pid())


class PodmanLifecycle(Lifecycle):
    kind = 'podman'


class Networks(Engines):
    def test_down_removes_the_bridge_of_a_network_with_a_chosen_subnet_and_up_makes_it_again(self):
        self.engine.up()
        client = docker.APIClient(base_url=self.engine.place.url, version='auto')
        subnet = docker.types.IPAMPool(subnet='10.123.45.0/24')
        made = client.create_network('mine', ipam=docker.types.IPAMConfig(pool_configs=[subnet]))
        bridge = f'br-{made["Id"][:12]}'
        self.assertIn(bridge, machine()['links'])
        self.engine.down()
        self.assertNotIn(bridge, machine()['links'])
        self.engine.up()
        client.close()
        self.assertIn(bridge, machine()['links'])
