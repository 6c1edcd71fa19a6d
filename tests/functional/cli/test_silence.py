"""Services that never answer, or refuse: the error says which one."""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.processes import PATIENCE_S, ROOT
from tests.unit.compute_drivers.nova.loopback import Loopback

CONFIG = """\
[compute]
default_backend = east
[compute:east]
driver = nova
auth_url = {url}
username = u
password = p
project_name = p
user_domain_name = Default
project_domain_name = Default
flavor = small
image = debian
"""

NOVA = """\
[compute]
default_backend = east
[compute:east]
driver = nova
auth_type = none
microversion = 2.96
compute_endpoint_override = {url}
"""
SIMULATED = """\
[compute]
default_backend = east
[compute:east]
driver = noop
"""
WEB = """\
cluster: web
coe: nodes
image: debian
nodegroups:
  - name: work
    count: 1
"""


class Silence(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.silent = self.enterContext(socket.create_server(('127.0.0.1', 0)))
        self.url = f'http://127.0.0.1:{self.silent.getsockname()[1]}'
        self.conf = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), 'kiln.conf')
        self.conf.write_text(CONFIG.format(url=self.url))

    def argv(self, *words):
        return [sys.executable, '-m', 'kiln.cli', '--config-file', str(self.conf), *words]

    def test_a_keystone_that_never_answers_is_named_by_check_and_by_calls(self):
        for words in ('check',), ('list',):
            with self.subTest(words):
                done = subprocess.run(
                    self.argv('compute', *words, '--timeout', '1'),
                    cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
                )  # fmt: skip
                self.assertEqual(ExitCode.UNAVAILABLE, done.returncode, done)
                self.assertIn('Keystone', done.stdout + done.stderr)

    def test_a_command_that_waits_names_the_keystone_that_is_silent(self):
        with subprocess.Popen(
            self.argv('compute', 'list'), cwd=ROOT, stderr=subprocess.PIPE, text=True
        ) as waits:
            self.addCleanup(waits.kill)
            self.assertIn(
                f"Keystone at {self.url}, for backend 'east', has", waits.stderr.readline()
            )
            waits.terminate()

    def run_kiln(self, *words):
        done = subprocess.run(
            self.argv(*words), cwd=ROOT, capture_output=True, text=True, check=True,
            timeout=PATIENCE_S,
        )  # fmt: skip
        self.assertEqual('', done.stderr)
        return done.stdout

    def settle(self):
        """Create a cluster of simulated machines; return the rest of the configuration."""
        store = f'[db]\nurl = sqlite:///{self.conf.parent}/kiln.db\n'
        self.conf.write_text(f'{SIMULATED}{store}')
        file = self.conf.parent / 'web.yaml'
        file.write_text(WEB)
        self.run_kiln('up', str(file))
        return store

    def test_why_names_the_keystone_that_is_silent_behind_a_settled_cluster(self):
        store = self.settle()
        self.conf.write_text(f'{CONFIG.format(url=self.url)}{store}')
        self.assertIn(
            f"Keystone at {self.url}, for backend 'east', has not answered for over 3 s",
            self.run_kiln('why', 'web'),
        )

    def test_an_idle_conductor_logs_an_outage_and_its_end_before_its_next_poll(self):
        store = self.settle()
        (node,) = json.loads(self.run_kiln('node', 'list', 'web', '--long', '-f', 'json'))
        machine = node['compute_id']
        server = {'id': machine, 'status': 'ACTIVE', 'OS-EXT-STS:vm_state': 'active'}
        refuses, checked = threading.Event(), threading.Event()

        def answer(query):
            checked.set()
            return (503, {}, {}) if refuses.is_set() else {'server': server}

        nova = self.enterContext(Loopback())
        nova.answers['GET /servers/detail'] = {'servers': [server]}
        nova.answers[f'GET /servers/{machine}'] = answer
        self.conf.write_text(f'{NOVA.format(url=nova.url)}{store}[clusters]\nwatch = 3600\n')
        with subprocess.Popen(
            self.argv('conductor'), cwd=ROOT, stderr=subprocess.PIPE, text=True
        ) as conductor:
            self.addCleanup(conductor.kill)
            self.assertIn('Working on clusters', conductor.stderr.readline())
            self.assertTrue(checked.wait(PATIENCE_S))
            refuses.set()
            self.assertIn('Backend east does not answer', conductor.stderr.readline())
            refuses.clear()
            self.assertIn('Backend east answers the polls', conductor.stderr.readline())
            conductor.terminate()


if __name__ == '__main__':
    unittest.main()
