"""Several processes on one simulated cloud that are killed at any time."""

import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.models import State

ROOT = pathlib.Path(__file__).parents[3]


class KillTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = folder / 'cloud.db'

    def start(self, *arguments):
        process = subprocess.Popen(
            [sys.executable, '-m', 'tests.functional.noop.victim', str(self.path), *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {'PYTHONPATH': str(ROOT)},
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        return process

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        said = {'asks': [], 'has': {}, 'drops': set()}
        for line in process.stdout.read().splitlines(keepends=True):
            word, *rest = line.split()
            # The last line can be incomplete if the process was killed.
            if not line.endswith('\n'):
                continue
            if word == 'asks':
                said['asks'].append(rest[0])
            elif word == 'has':
                said['has'][rest[0]] = rest[1]
            else:
                said['drops'].add(rest[0])
        process.wait()
        return said

    def check(self, driver, said):
        """Compare the answers that a dead process got with the cloud."""
        there = {i.build_key: i for i in driver.list_amphorae()}
        mine = {key: i for key, i in there.items() if key in said['asks']}
        for key, amphora_id in said['has'].items():
            if key not in said['drops']:
                self.assertEqual(mine[key].id, amphora_id)
        in_flight = set(said['asks']) - set(said['has'])
        self.assertLessEqual(len(in_flight), 1)
        for key in in_flight & mine.keys():
            self.assertEqual(driver.find_build(key).id, mine[key].id)
        for instance in mine.values():
            # A build exists completely, or not at all.
            self.assertEqual(len(instance.addresses), 2)

    def test_a_killed_process_leaves_its_acknowledged_builds_and_at_most_one_more(self):
        dice = random.Random(5)
        driver = NoopDriver(cloud=NoopCloud(self.path, build_s=0.02, delete_s=0.02))
        self.addCleanup(driver.close)
        for turn in range(6):
            process = self.start(f'turn{turn}')
            self.assertTrue(process.stdout.readline())
            time.sleep(dice.uniform(0.0, 0.1))
            self.check(driver, self.kill(process))
        # Accepted builds finish without a running process.
        time.sleep(0.05)
        for instance in driver.list_amphorae():
            self.assertIs(instance.state, State.ACTIVE)
        db = sqlite3.connect(self.path)
        self.addCleanup(db.close)
        self.assertEqual(db.execute('PRAGMA integrity_check').fetchone()[0], 'ok')
        self.assertEqual(
            db.execute('SELECT count(*) FROM machines').fetchone()[0], driver.cloud.count()
        )

    def test_concurrent_processes_share_one_cloud(self):
        # They also compete to create the file.
        processes = [self.start('shared', '60') for _ in range(4)]
        ids = {}
        for process in processes:
            for line in process.stdout.read().splitlines():
                word, key, *rest = line.split()
                if word == 'has' and int(key.split('-')[1]) % 3:
                    ids.setdefault(key, set()).add(rest[0])
            self.assertEqual(process.wait(), 0)
        self.assertEqual(len(ids), 40)
        for key, given in ids.items():
            self.assertEqual(len(given), 1, key)
