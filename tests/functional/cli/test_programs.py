"""Conductors that are killed while a program builds a cluster, and programs that are killed.

KILN_PROGRAM_KILLS is how often each of both is killed: 3, or 30 in a soak.
"""

import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from kiln.cli.exit_codes import ExitCode
from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import OperationState
from kiln.db.store import open_store
from kiln.programs.detached import Runs, RunState
from tests.kit.program_animals import copy_of_model
from tests.unit.cli.processes import PATIENCE_S, ROOT, Processes

KILLS = int(os.environ.get('KILN_PROGRAM_KILLS', '3'))
CONFIG = """\
[compute]
default_backend = noop
[db]
url = sqlite:///{folder}/kiln.db
[clusters]
driver_path = {folder}/drivers
run_path = {folder}/runs
lease = 1
quiesce = 0
"""
CLUSTER = """\
cluster: killed
driver: shelf_v1
coe: shelf
parameters: {{theme: {theme}}}
nodegroups:
  - {{name: edge, count: 1}}
  - {{name: web, count: {count}}}
"""
#: The program notes its calls, and stops at a number of nodes until the test lets it go on.
CHANGES = [
    ("SHELF = pathlib.Path(os.environ.get('KILN_BENCH', '/var/lib'), 'shelf')",
     "SHELF = pathlib.Path({folder!r}, 'shelf')\n\n\n"
     'def hold(count):\n'
     '    try:\n'
     "        at = int((SHELF / 'hold').read_text())\n"
     '    except FileNotFoundError:\n'
     '        return\n'
     '    if count >= at:\n'
     "        (SHELF / 'held').touch()\n"
     "        while (SHELF / 'hold').exists():\n"
     '            time.sleep(0.02)'),
    ('import sys\n', 'import sys\nimport time\n'),
    ('    new.replace(path_of(asked))\n',
     "    new.replace(path_of(asked))\n    hold(len(content['nodes']))\n"),
    ('def delete(asked):\n    accept()\n', 'def delete(asked):\n    accept()\n    hold(0)\n'),
    ('    asked = json.load(sys.stdin)\n',
     '    asked = json.load(sys.stdin)\n'
     "    with (SHELF / 'calls').open('a') as file:\n"
     "        print(sys.argv[1], file=file)\n"),
]  # fmt: skip
#: The operations of a life: verb, count of the group web, theme.
LIFE = (('create', 3, 'dark'), ('update', 5, 'light'), ('delete', 0, ''))


class Programs(Processes):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.shelf = self.folder / 'shelf'
        self.shelf.mkdir()
        drivers = self.folder / 'drivers'
        drivers.mkdir()
        copy_of_model(
            drivers, changes=[(old, new.replace('{folder!r}', repr(str(self.folder))))
                              for old, new in CHANGES],
        )  # fmt: skip
        self.config = self.folder / 'kiln.conf'
        self.config.write_text(CONFIG.format(folder=self.folder))
        self.store = self.enterContext(open_store(f'sqlite:///{self.folder}/kiln.db'))
        self.addCleanup(self.end_runs)
        self.dice = random.Random(KILLS)

    def end_runs(self):
        for folder in (self.folder / 'runs').glob('*/'):
            if (last := Runs(folder.parent, folder.name).latest()) is not None:
                last.kill()

    # ---- what is done -----------------------------------------------------------------

    def kiln(self, *argv, status=0):
        done = subprocess.run(
            [sys.executable, '-m', 'kiln.cli', '--config-file', self.config, *argv],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(status, done.returncode, done.stderr)

    def conduct(self):
        process = self.start('--config-file', str(self.config), 'conductor')
        self.assertTrue(any('Working on clusters' in line for line in process.stderr))
        return process

    def submit(self, verb, count, theme):
        """Submit an operation, and return it."""
        (self.shelf / 'calls').write_text('')
        if verb == 'delete':
            self.kiln('cluster', 'delete', 'killed', '--yes', '--no-wait')
        else:
            file = self.folder / 'cluster.yaml'
            file.write_text(CLUSTER.format(count=count, theme=theme))
            self.kiln('up', str(file), '--yes', '--no-wait')
        self.cluster = self.store.clusters.get('killed')
        (operation,) = self.store.operations.of(self.cluster.id, limit=1)
        return operation

    def held(self, verb, moment):
        """Have the program stop at a number of nodes; return what waits until it has."""
        (self.shelf / 'held').unlink(missing_ok=True)
        (self.shelf / 'hold').write_text('0' if verb == 'delete' else str(moment))
        return lambda: self.until((self.shelf / 'held').exists)

    def let_go(self):
        (self.shelf / 'hold').unlink(missing_ok=True)

    # ---- what is expected --------------------------------------------------------------

    def succeeds(self, operation, verb, count, theme, calls):
        """Wait for the end of an operation, and check what stands and how it was made."""
        self.until(lambda: self.store.operations.get(operation.id).state.ended)
        ended = self.store.operations.get(operation.id)
        self.assertIs(OperationState.SUCCEEDED, ended.state, ended.cause)
        called = [one for one in (self.shelf / 'calls').read_text().split() if one == verb]
        self.assertEqual([verb] * calls, called, 'how often the program was called')
        files = list(self.shelf.glob('*.json'))
        if verb == 'delete':
            self.assertEqual([], files)
            with self.assertRaises(ClusterNotFound):
                self.store.clusters.get('killed')
            return
        nodes = list(json.loads(files[0].read_text())['nodes'].values())
        self.assertEqual(1, len(files))
        self.assertEqual(count + 1, len(nodes))
        self.assertEqual({theme}, {node['parameters']['theme'] for node in nodes})

    # ---- tests -------------------------------------------------------------------------

    def test_the_next_conductor_finds_a_program_that_is_at_work(self):
        for number in range(KILLS):
            verb, count, theme = LIFE[number % len(LIFE)]
            with self.subTest(number=number, verb=verb):
                wait_until_held = self.held(verb, 1 + number % (count + 1))
                operation = self.submit(verb, count, theme)
                conductor = self.conduct()
                wait_until_held()
                conductor.kill()
                conductor.wait(PATIENCE_S)
                conductor = self.conduct()
                self.let_go()
                self.succeeds(operation, verb, count, theme, calls=1)
                conductor.terminate()
                conductor.wait(PATIENCE_S)

    def test_a_conductor_killed_at_any_time_neither_loses_nor_repeats_a_program(self):
        for number in range(KILLS):
            verb, count, theme = LIFE[number % len(LIFE)]
            with self.subTest(number=number, verb=verb):
                operation = self.submit(verb, count, theme)
                conductor = self.conduct()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    conductor.wait(self.dice.uniform(0.0, 1.5))
                conductor.kill()
                conductor.wait(PATIENCE_S)
                conductor = self.conduct()
                self.succeeds(operation, verb, count, theme, calls=1)
                conductor.terminate()
                conductor.wait(PATIENCE_S)

    def test_a_program_that_is_killed_is_called_again(self):
        conductor = self.conduct()
        for number in range(KILLS):
            verb, count, theme = LIFE[number % len(LIFE)]
            with self.subTest(number=number, verb=verb):
                wait_until_held = self.held(verb, 1 + number % (count + 1))
                operation = self.submit(verb, count, theme)
                wait_until_held()
                Runs(self.folder / 'runs', self.cluster.id).latest().kill()
                self.let_go()
                self.succeeds(operation, verb, count, theme, calls=2)
        conductor.terminate()
        conductor.wait(PATIENCE_S)

    def test_a_program_whose_operation_was_cancelled_is_ended_by_a_check(self):
        conductor = self.conduct()
        wait_until_held = self.held('create', 1)
        operation = self.submit(*LIFE[0])
        wait_until_held()
        self.kiln('cluster', 'cancel', 'killed')
        run = Runs(self.folder / 'runs', self.cluster.id).latest()
        self.assertIs(RunState.RUNNING, run.state)
        # What it has built is not what was declared.
        self.kiln('cluster', 'check', 'killed', status=ExitCode.UNFORESEEN)
        self.assertEqual('stopped', run.result['why'])
        self.assertIs(OperationState.CANCELLED, self.store.operations.get(operation.id).state)
        self.assertEqual(1, (self.shelf / 'calls').read_text().split().count('create'))
        self.let_go()
        operation = self.submit(*LIFE[1])
        self.succeeds(operation, *LIFE[1], calls=1)
        conductor.terminate()
        conductor.wait(PATIENCE_S)


if __name__ == '__main__':
    unittest.main()
