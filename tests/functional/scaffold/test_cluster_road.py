"""From nothing to a cluster of one's own driver, in an environment that has only a wheel."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import venv
from pathlib import Path

ROOT = Path(__file__).parents[3]
#: As long as the whole road may take, once kiln is installed.
MINUTE_S = 60.0


class ClusterRoadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        wheels = cls.folder / 'wheels'
        cls.run_program(
            sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps', '-w', str(wheels), str(ROOT)
        )
        (wheel,) = wheels.iterdir()
        venv.create(cls.folder / 'venv', with_pip=True)
        cls.run_tool('pip', 'install', '-q', f'{wheel}[clusters]')
        cls.drivers = cls.folder / 'drivers'
        cls.drivers.mkdir()
        cls.config = cls.folder / 'kiln.conf'
        cls.config.write_text(f'[clusters]\ndriver_path = {cls.drivers}\n')

    @classmethod
    def run_program(cls, *command, cwd=None):
        # The checkout must not be found by accident.
        environment = {key: value for key, value in os.environ.items() if key != 'PYTHONPATH'}
        done = subprocess.run(
            command, cwd=cwd or cls.folder, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise AssertionError(f'{" ".join(command)}\n{done.stdout}{done.stderr}')
        return done.stdout

    @classmethod
    def run_tool(cls, tool, *args, cwd=None):
        return cls.run_program(str(cls.folder / 'venv' / 'bin' / tool), *args, cwd=cwd)

    @classmethod
    def kiln(cls, *args):
        return cls.run_tool('kiln', '--config-file', str(cls.config), *args)

    def test_001_27_from_nothing_to_a_cluster_in_a_minute_without_python(self):
        started = time.monotonic()
        self.kiln('driver', 'new', 'cluster', 'acme_v1', '--output', str(self.drivers))
        folder = self.drivers / 'acme_v1'
        self.assertIn('no mistakes', self.kiln('driver', 'lint', str(folder)))
        rows = json.loads(self.kiln('driver', 'list', '-f', 'json'))
        self.assertIn(('acme_v1', 'active'), {(row['name'], row['state']) for row in rows})
        self.assertIn('chosen: acme_v1', self.kiln('driver', 'explain', '--coe', 'acme'))
        report = self.kiln('driver', 'test', str(folder), '--select', 'Life*')
        self.assertIn('a cluster is created and every node is one machine', report)
        self.assertIn(' 0 failed, 0 cannot be shown here', report)
        self.assertLess(time.monotonic() - started, MINUTE_S)

    def test_001_26_a_package_installs_is_found_and_passes_its_tests(self):
        self.kiln('driver', 'new', 'cluster', 'boxed_v1', '--form', 'package', '--output',
                  str(self.folder))  # fmt: skip
        package = self.folder / 'kiln-driver-boxed-v1'
        self.run_tool('pip', 'install', '-q', f'{package}[test]')
        output = self.run_tool(
            'pytest',
            '-p',
            'no:cacheprovider',
            'tests/test_conformance.py::Conformance',
            cwd=package,
        )
        self.assertRegex(output, r'3\d passed')
        self.assertIn('package kiln-driver-boxed-v1', self.kiln('driver', 'show', 'boxed_v1'))
        self.assertIn('What each node says', self.kiln('driver', 'doc', 'boxed_v1'))
