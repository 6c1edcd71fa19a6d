"""Services that accept connections and never answer: the error says which one."""

import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.processes import PATIENCE_S, ROOT

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

    def test_why_names_the_keystone_that_is_silent_behind_a_settled_cluster(self):
        folder = self.conf.parent
        store = f'[db]\nurl = sqlite:///{folder}/kiln.db\n'
        self.conf.write_text(f'{SIMULATED}{store}')
        file = folder / 'web.yaml'
        file.write_text(WEB)
        for words in ('up', str(file)), ('why', 'web'):
            done = subprocess.run(
                self.argv(*words), cwd=ROOT, capture_output=True, text=True, check=True,
                timeout=PATIENCE_S,
            )  # fmt: skip
            self.conf.write_text(f'{CONFIG.format(url=self.url)}{store}')
        self.assertIn(
            f"Keystone at {self.url}, for backend 'east', has not answered for over 3 s",
            done.stdout,
        )
        self.assertEqual('', done.stderr)


if __name__ == '__main__':
    unittest.main()
