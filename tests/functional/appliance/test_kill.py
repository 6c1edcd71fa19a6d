"""Several processes on one pool of machines, killed at any time."""

import contextlib
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

from kiln.compute_drivers.appliance.driver import ApplianceDriver
from kiln.compute_drivers.authoring.machine_pool import Standing
from kiln.models import State
from tests.functional.appliance.yard import StrictYard

ROOT = pathlib.Path(__file__).parents[3]
#: The number of processes that are killed.
KILLS = int(os.environ.get('KILN_POOL_KILLS', '8'))


class PoolTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, *arguments):
        process = subprocess.Popen(
            [sys.executable, '-m', 'tests.functional.appliance.victim', self.folder, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {'PYTHONPATH': str(ROOT)},
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        return process

    def open(self):
        driver = ApplianceDriver.open(self.yard.options, name='pool', owner='us')
        self.addCleanup(driver.close)
        return driver

    def eventually(self, so, sentence):
        give_up = time.monotonic() + 300
        while not so():
            self.assertLess(time.monotonic(), give_up, f'this still does not hold: {sentence}')
            time.sleep(0.02)

    def test_concurrent_processes_claim_each_machine_once(self):
        self.yard = StrictYard(self.folder).make(40, 0)
        # They also create the files of the pool at the same time.
        processes = [self.start(f'p{number}', '40') for number in range(3)]
        got = []
        for process in processes:
            got += [line.split()[1] for line in process.stdout.read().splitlines()]
            self.assertEqual(0, process.wait())
        self.assertEqual([f'm{number:02}' for number in range(40)], sorted(got))

    def test_kills_neither_duplicate_nor_lose_claims_nor_wipe_machines_in_use(self):
        dice = random.Random(11)
        self.yard = StrictYard(self.folder).make(5, 0.02)
        said = {}
        # Two at a time, so that a survivor takes over from a killed one.
        running = [self.start(f'turn{number}') for number in range(2)]
        for turn in range(KILLS):
            victim = running.pop(0)
            self.assertTrue(victim.stdout.readline())
            time.sleep(dice.uniform(0.0, 0.4))
            victim.send_signal(signal.SIGKILL)
            self.check(victim.stdout.read(), said)
            victim.wait()
            running.append(self.start(f'turn{turn + 2}'))
        for victim in running:
            victim.kill()
            victim.wait()
        self.assertEqual([], self.yard.wrong())
        self.end_all()

    def check(self, text, said):
        """Compare the output of a dead process with the pool."""
        with contextlib.closing(self.open()) as driver:
            for line in text.splitlines(keepends=True):
                word, *rest = line.split()
                # The last line can be cut off where the process died.
                if word == 'has' and line.endswith('\n'):
                    key, amphora_id = rest
                    said[key] = amphora_id
            there = list(driver.list_amphorae())
            machines = [one.raw['machine'] for one in there]
            self.assertEqual(len(set(machines)), len(machines))
            for one in there:
                self.assertEqual(said.get(one.build_key, one.id), one.id)

    def end_all(self):
        """Finish the work of dead processes; check that all machines are free."""
        driver = self.open()
        for one in driver.list_amphorae():
            driver.delete(one.id)
        self.eventually(
            lambda: {one.standing for one in driver.machines()} == {Standing.FREE},
            'all machines are free',
        )
        self.assertEqual([], list(driver.list_amphorae()))
        self.assertEqual(([], set()), (self.yard.wrong(), self.yard.owners()))
        self.assertEqual([], list((self.folder / 'state' / 'run').iterdir()))
        db = sqlite3.connect(self.folder / 'state' / 'claims.db')
        self.addCleanup(db.close)
        self.assertEqual('ok', db.execute('PRAGMA integrity_check').fetchone()[0])

    def test_a_command_that_outlives_its_kiln_keeps_its_machine_until_it_ends(self):
        self.yard = StrictYard(self.folder).make(1, 1.5)
        process = self.start('first', '1', 'stay')
        busy = self.folder / 'm00.busy'
        self.eventually(busy.exists, 'the claim command runs')
        first = busy.read_text()
        process.kill()
        driver = self.open()
        (one,) = driver.list_amphorae()
        driver.delete(one.id)
        # The wipe is due, and waits for the command of the dead process.
        time.sleep(0.3)
        self.assertEqual(first, busy.read_text())
        self.eventually(lambda: not list(driver.list_amphorae()), 'the machine is wiped')
        self.assertEqual([], self.yard.wrong())

    def test_an_interrupted_claim_command_is_run_again_with_its_key(self):
        self.yard = StrictYard(self.folder).make(1, 0.3)
        process = self.start('first', '1', 'stay')
        self.eventually((self.folder / 'm00.busy').exists, 'the claim command runs')
        process.kill()
        process.wait()
        driver = self.open()
        (one,) = driver.list_amphorae()
        self.assertEqual('first-0', one.build_key)
        self.eventually(
            lambda: driver.status(one.id).state is State.ACTIVE, 'the claim is finished'
        )
        self.assertEqual([], self.yard.wrong())
        driver.delete(one.id)
        self.eventually(lambda: not self.yard.owners(), 'it is wiped')
