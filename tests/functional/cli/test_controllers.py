"""Tests of the controllers of the guide, stopped repeatedly while the cloud misbehaves.

KILN_CONTROLLER_KILLS is the number of stops, for each of KILN_CONTROLLER_SEEDS seeds.
"""

import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver

ROOT = pathlib.Path(__file__).parents[3]
PROGRAMS = ROOT / 'doc' / 'examples' / 'programs'
KILLS = int(os.environ.get('KILN_CONTROLLER_KILLS', '5'))
SEEDS = int(os.environ.get('KILN_CONTROLLER_SEEDS', '1'))
WEATHER = (
    'build:timeout_after:times=3,probability=0.4; build:lose_answer:times=3,probability=0.4; '
    'build:capacity:times=2,probability=0.3; build:error:times=2,probability=0.3; '
    'find_build:refuse:times=3,probability=0.4; list:refuse:times=2,probability=0.4; '
    'delete:timeout_before:times=3,probability=0.4; delete:lose_answer:times=2,probability=0.4'
)


class Controllers(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.wanted = self.folder / 'wanted.json'
        self.cloud = (self.folder / 'cloud.db').resolve()
        self.environment = os.environ | {
            'PYTHONPATH': str(ROOT),
            'KILN_COMPUTE_NOOP__PATH': str(self.cloud),
            'KILN_COMPUTE_NOOP__BUILD_S': '0.4',
            'KILN_COMPUTE_NOOP__DELETE_S': '0.2',
            'KILN_COMPUTE_NOOP__WATCH_INTERVAL': '0.1',
            'KILN_COMPUTE_NOOP__FAULTS': WEATHER,
            # The simulated failures open it, which would take half a minute, then a minute.
            'KILN_COMPUTE_NOOP__CIRCUIT_OPEN': '0.2',
            'KILN_COMPUTE_NOOP__CIRCUIT_OPEN_MAX': '0.5',
        }

    def start(self, program, dice):
        process = subprocess.Popen(
            [sys.executable, PROGRAMS / program, self.wanted],
            # Each process has its own random numbers, the same on each run of the test.
            env=self.environment | {'KILN_COMPUTE_NOOP__SEED': str(dice.getrandbits(32))},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(process.kill)
        return process

    def wait_begun(self, process):
        """Wait until a process has opened its cloud or has ended."""
        files = pathlib.Path(f'/proc/{process.pid}/fd')
        while process.poll() is None:
            # Descriptors can be closed while they are read.
            with contextlib.suppress(OSError):
                if any(file.resolve() == self.cloud for file in files.iterdir()):
                    return
            time.sleep(0.01)

    def machines(self):
        with contextlib.closing(NoopCloud(self.cloud)) as cloud:
            return collections.Counter((one.name, one.state.value) for one in cloud.instances())

    def survives(self, program):
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                dice = random.Random(seed)
                for _ in range(KILLS):
                    names = [f'web-{n}' for n in range(8) if dice.random() < 0.6]
                    self.wanted.write_text(json.dumps(names))
                    process = self.start(program, dice)
                    self.wait_begun(process)
                    # At a random time of its work, or after its end.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(dice.uniform(0.0, 2.0))
                    # After SIGTERM it can take as long as the answers of the backend.
                    process.send_signal(dice.choice((signal.SIGKILL, signal.SIGTERM)))
                    process.communicate(timeout=900)
                process = self.start(program, dice)
                out, err = process.communicate(timeout=900)
                # Warnings about simulated failures are allowed.
                self.assertEqual(0, process.returncode, err)
                self.assertNotIn('Traceback', err)
                self.assertEqual(f'{len(names)} machines, as wanted\n', out)
                self.assertEqual({(name, 'active'): 1 for name in names}, self.machines())

    def begun(self, program):
        """Return a process whose builds are all running, and their machines."""
        self.environment |= {
            'KILN_COMPUTE_NOOP__FAULTS': '', 'KILN_COMPUTE_NOOP__BUILD_S': '3600',
        }  # fmt: skip
        names = ['web-0', 'web-1', 'web-2']
        self.wanted.write_text(json.dumps(names))
        process = self.start(program, random.Random(0))
        while len(self.ids()) < len(names) and process.poll() is None:
            time.sleep(0.05)
        return process, self.ids()

    def ids(self):
        with contextlib.closing(NoopCloud(self.cloud)) as cloud:
            return {one.name: one.id for one in cloud.instances()}

    def leaves_its_builds(self, program):
        process, begun = self.begun(program)
        process.terminate()
        out, err = process.communicate(timeout=900)
        self.assertEqual((143, '', ''), (process.returncode, out, err))
        self.assertEqual(begun, self.ids())

    def test_sigterm_ends_a_threaded_controller_but_not_its_builds(self):
        self.leaves_its_builds('controller.py')

    def test_sigterm_ends_a_controller_on_an_event_loop_but_not_its_builds(self):
        self.leaves_its_builds('controller_async.py')

    def test_a_machine_to_repair_by_hand_ends_the_controller_but_not_its_builds(self):
        with Compute(NoopDriver(cloud=NoopCloud(self.cloud))) as compute:
            ours = compute.build(
                amphora_flavor='small', name='web-0', build_key='web-0', until='active'
            ).result()
            self.leaves_its_builds('controller.py')
            compute.suspend(ours, wait=True).result()
            process, begun = self.begun('controller.py')
            _, err = process.communicate(timeout=900)
            self.assertEqual(1, process.returncode)
            self.assertIn('BuildNotRunning', err)
            self.assertEqual(begun, self.ids())

    def test_a_threaded_controller_has_exactly_the_desired_machines(self):
        self.survives('controller.py')

    def test_a_controller_on_an_event_loop_has_exactly_the_desired_machines(self):
        self.survives('controller_async.py')
