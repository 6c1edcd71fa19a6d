"""An engine of one's own comes up, is killed, and leaves the machine as it was."""

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
    """What an engine may change on a machine."""
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


class Life(unittest.TestCase):
    kind = 'docker'

    def setUp(self):
        home = self.enterContext(tempfile.TemporaryDirectory(prefix='kiln-engine-'))
        self.engine = Engine(Place(pathlib.Path(home), self.kind))
        self.addCleanup(self.engine.down, wipe=True)
        # Other engines can start and stop meanwhile: only look at what belongs to this one.
        self.own = (self.engine.place.bridge, str(home))

    def work(self):
        """Have the engine run a container, and a network of its own."""
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

    def test_the_last_one_puts_back_what_the_first_one_found(self):
        notes = host.NOTES / 'notes.json'
        if notes.exists() and '"up": {}' not in notes.read_text():
            # Another engine is up, and is the last one later.
            self.assertIn('before', notes.read_text())
            return
        before = machine()
        self.engine.up()
        # Podman makes its bridge with the first container.
        self.work()
        self.assertNotEqual(before['links'], machine()['links'])
        self.engine.down()
        self.assertEqual(before, machine())

    def test_up_again_leaves_a_running_one_alone_and_mends_a_killed_one(self):
        self.engine.up()
        first = self.engine.engine_pid()
        self.engine.up()
        self.assertEqual(first, self.engine.engine_pid())
        os.kill(first, signal.SIGKILL)
        self.engine.up()
        self.assertTrue(self.engine.answers())
        self.assertNotEqual(first, self.engine.engine_pid())


class PodmanLife(Life):
    kind = 'podman'
