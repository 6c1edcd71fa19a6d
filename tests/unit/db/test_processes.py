"""Tests of a store with several processes that die or sleep at any time."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from kiln.testing.clock import VirtualClock
from tests.unit.db import samples
from tests.unit.db.case import StoreCase

ROOT = pathlib.Path(__file__).parents[3]
#: Seconds after which the leases of all other processes have expired.
OVER_S = 60


class Processes(StoreCase):
    def setUp(self):
        super().setUp()
        # Processes share only the clock of the host, and the clock of this test can be ahead.
        self.clock = VirtualClock(time.time())
        self.store = self.open()
        self.create()

    def start(self, *arguments):
        process = subprocess.Popen(
            [sys.executable, '-m', 'tests.unit.db.victim', self.url, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {'PYTHONPATH': str(ROOT)},
        )
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ask(self, process):
        process.stdin.write('\n')
        process.stdin.flush()

    def claim_when_it_is_over(self, owner):
        self.pass_time(OVER_S)
        return self.claim(owner=owner, term_s=60)

    def check_integrity(self):
        self.assertEqual([('ok',)], self.rows('PRAGMA integrity_check'))

    def written(self, owner):
        """Return the stored numbers of an owner, which must be equal in all three tables."""
        steps = {one.id for one in self.store.journal.of('op-web')}
        nodes = {one.id for one in self.store.nodes.of('c-web')}
        told = [one.message.split() for one in self.store.events.after(limit=100_000)]
        events = {f'{who}-{number}' for who, number in told}
        self.assertEqual(steps, nodes)
        self.assertEqual(steps, events)
        return {int(one.split('-')[1]) for one in steps if one.startswith(f'{owner}-')}

    def test_a_killed_process_leaves_all_acknowledged_writes(self):
        dice = random.Random(7)
        for turn in range(3):
            owner = f'o{turn}'
            process = self.start(owner, '1000000')
            self.assertEqual('has', process.stdout.readline().split()[0])
            told = {int(process.stdout.readline().split()[1]) for _ in range(dice.randint(1, 30))}
            process.send_signal(signal.SIGKILL)
            # The last line can be truncated by the death of the process.
            lines = process.stdout.read().splitlines(keepends=True)
            told |= {int(line.split()[1]) for line in lines if line.endswith('\n')}
            process.wait()
            found = self.written(owner)
            self.assertLessEqual(told, found)
            self.assertLessEqual(len(found - told), 1)
            self.store.leases.release(self.claim_when_it_is_over('me'))
        self.check_integrity()

    def test_finding_8_an_owner_that_slept_through_a_takeover_cannot_write(self):
        process = self.start('sleeper', '10', 'asking')
        self.assertEqual('has 1\n', process.stdout.readline())
        self.ask(process)
        self.assertEqual('wrote 0\n', process.stdout.readline())
        process.send_signal(signal.SIGSTOP)
        lease = self.claim_when_it_is_over('me')
        self.ask(process)
        self.write(lease)
        process.send_signal(signal.SIGCONT)
        self.assertEqual('lost\n', process.stdout.read())
        self.assertEqual({0}, self.written('sleeper'))

    def test_processes_that_write_at_the_same_time_lose_nothing(self):
        self.create('other')
        mine = self.claim('c-other')
        process = self.start('other', '60')
        for number in range(60):
            self.write(mine, node=samples.node(f'mine-{number}', 'c-other'))
        process.stdout.read()
        self.assertEqual(0, process.wait())
        self.assertEqual(set(range(60)), self.written('other'))
        self.assertEqual(60, len(self.store.nodes.of('c-other')))
