"""An environment that has nothing of ours but a wheel."""

import os
import subprocess
import sys
import tempfile
import unittest
import venv
from pathlib import Path

ROOT = Path(__file__).parents[3]


class CleanEnvironment(unittest.TestCase):
    """Has ``folder``, and in it a virtual environment with kiln, for all its tests."""

    #: What of kiln is installed, beside its core.
    extras = ''

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
        cls.run_tool('pip', 'install', '-q', f'{wheel}{cls.extras}')

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
