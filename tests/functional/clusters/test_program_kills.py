"""Kills of kiln and of the program, at many moments: each request ends as it was wanted.

KILN_KILLS is how often each is killed: 2, or 30 at full size.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from tests.kit.program_animals import copy_of_model
from tests.unit.test_layering import ROOT

KILLS = int(os.environ.get('KILN_KILLS', '2'))
_NEVER = 1_000_000_000
#: The program is killed with its supervisor just before it writes for the nth time.
_WRITES = (
    'def write(asked, content):\n',
    'def write(asked, content):\n'
    "    left = pathlib.Path(os.environ['KILN_BENCH'], 'left')\n"
    '    if left.exists():\n'
    '        count = int(left.read_text())\n'
    '        left.write_text(str(count - 1)) if count > 1 else left.unlink()\n'
    '        if count == 1:\n'
    '            os.kill(os.getppid(), 9)\n'
    '            os.kill(os.getpid(), 9)\n',
)
#: The operations of a life: verb, nodes by group, theme, generation.
_LIFE = (
    ('create', {'edge': 1, 'web': 3}, 'dark', 1),
    ('update', {'web': 5}, 'light', 2),
    ('delete', {'web': 5}, 'light', 3),
)


class Kills(unittest.TestCase):
    def begin(self):
        """Begin with an empty shelf."""
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.home = copy_of_model(self.folder, changes=[_WRITES])
        self.shelf = self.folder / 'shelf'

    def pursue(self, operation, kill_at=_NEVER):
        """Drive an operation in another process; return its status, and what it printed."""
        verb, counts, theme, generation = operation
        given = {
            'driver': str(self.home), 'bench': str(self.folder), 'verb': verb, 'theme': theme,
            'kept': str(self.folder / 'kept.json'), 'runs': str(self.folder / 'runs'),
            'counts': counts, 'generation': generation, 'kill_at': kill_at,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, '-m', 'tests.functional.clusters.pursuer',
             json.dumps(given)],
            capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
        self.assertIn(done.returncode, (0, -signal.SIGKILL), done.stderr)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def finished(self, operation):
        """Drive an operation to its end, and check what stands."""
        progress, reason, counted = self.pursue(operation)
        self.assertEqual('complete', progress, reason)
        files = list(self.shelf.glob('*.json'))
        verb, counts, theme, _ = operation
        if verb == 'delete':
            self.assertEqual([], files)
            return counted
        (file,) = files
        nodes = json.loads(file.read_text())['nodes'].values()
        groups = [node['group'] for node in nodes]
        self.assertEqual(counts, {name: groups.count(name) for name in groups})
        self.assertEqual({theme}, {node['parameters']['theme'] for node in nodes})
        return counted

    def test_kiln_is_killed_at_many_moments(self):
        self.begin()
        moments = [self.finished(operation) for operation in _LIFE]
        for number in range(KILLS):
            self.begin()
            for operation, count in zip(_LIFE, moments, strict=True):
                moment = 1 + (number * count) // KILLS
                with self.subTest(operation[0], moment=moment):
                    self.assertIsNone(self.pursue(operation, kill_at=moment))
                    self.finished(operation)

    def test_the_program_is_killed_at_many_moments(self):
        for number in range(KILLS):
            self.begin()
            for operation in _LIFE[:2]:
                with self.subTest(operation[0], write=1 + number % 5):
                    (self.folder / 'left').write_text(str(1 + number % 5))
                    self.finished(operation)
            (self.folder / 'left').unlink(missing_ok=True)
            self.finished(_LIFE[2])


if __name__ == '__main__':
    unittest.main()
