"""Clocks that jump by an hour or a day: what is declared is carried out all the same.

Conductors run on two hosts; with a store on a server each has a clock of its own. KILN_JUMPS is
the number of jumps on each database: 2, or 67 at full size. KILN_SEED repeats them.
"""

import os
import random
import signal
import time

from tests.functional.db.servers import MariadbServer, PostgresServer, shared
from tests.functional.hostile.case import LEASE_S, OnAServer, OnSqlite, Rough

JUMPS = int(os.environ.get('KILN_JUMPS', '2'))
SEED = int(os.environ.get('KILN_SEED', random.randrange(10**6)))
HOUR_S, DAY_S = 3600.0, 86400.0
FAULTS = 'build:capacity:times=2,probability=0.3; build:error:times=2,probability=0.4'
#: What becomes of the process that works while a clock jumps.
FATES = {'lives': None, 'ends': signal.SIGTERM, 'dies': signal.SIGKILL}
#: Seconds after a jump within which what is under way has ended: two leases, the work itself, and
#: what a busy machine needs; far below the smallest jump.
LATEST_S = 2 * LEASE_S + 120.0


def setUpModule():
    ClocksOnPostgres.server = shared(PostgresServer)
    ClocksOnMariadb.server = shared(MariadbServer)


class Jumps(Rough):
    """Tests that run on each database."""

    faults = FAULTS

    def setUp(self):
        super().setUp()
        self.dice = random.Random(f'{SEED} {type(self).__name__}')
        self.conductors = [self.conductor(self.hosts[0])]
        self.count, self.image = 3, 'one'
        self.command('up', self.site.page('web', 3), '--yes')
        #: Seconds from each jump until all was as declared.
        self.took_s = []

    def test_what_is_declared_is_carried_out(self):
        for number in range(JUMPS):
            self.what = f'KILN_SEED={SEED}, jump {number}'
            self.jump()
        worst_s = max(self.took_s)
        print(f'\nKILN_SEED={SEED}: {JUMPS} jumps, at most {worst_s:.1f} s', flush=True)
        self.assertLess(worst_s, LATEST_S)

    def jump(self):
        dice = self.dice
        self.declare()
        self.until(self.worker, f'{self.what}: nobody works')
        time.sleep(dice.uniform(0.0, 0.6))
        fate, seconds = dice.choice(list(FATES)), dice.choice((-DAY_S, -HOUR_S, HOUR_S, DAY_S))
        clock = dice.choice(self.hosts).clock
        self.what += f': {seconds:+.0f} s, the owner {fate}'
        steps = [lambda: clock.jump(seconds), lambda: self.let(fate)]
        dice.shuffle(steps)
        for step in steps:
            step()
        began = time.monotonic()
        self.explained()
        self.until(lambda: self.under_way() is None, f'{self.what}: it does not end')
        self.took_s.append(time.monotonic() - began)
        print(f'{self.what}: {self.took_s[-1]:.1f} s', flush=True)
        self.assert_as_declared(self.what, self.count, self.image)

    def declare(self):
        """Declare another count, or another image."""
        if self.dice.random() < 0.6:
            self.count = self.dice.choice([one for one in range(1, 7) if one != self.count])
            self.command('cluster', 'scale', 'web', f'work={self.count}', '--yes', '--no-wait')
        else:
            self.image = f'image-{self.dice.randrange(10**6)}'
            self.command('cluster', 'upgrade', 'web', '--image', self.image, '--yes', '--no-wait')

    def let(self, fate):
        """Let the only conductor live, end or die; start another one unless it lives."""
        if FATES[fate]:
            self.conductors.pop().end(FATES[fate])
            # Before another one is there, nobody works.
            self.explained()
            self.conductors.append(self.conductor(self.dice.choice(self.hosts)))

    def explained(self):
        """Check whom kiln takes for the worker."""
        before = self.worker()
        said = self.command('why', 'web')
        alive = {process.pid for process in self.conductors if process.lives()}
        for word in said.replace('(', ' ').replace(',', ' ').replace(')', ' ').split():
            parts = word.split('.')
            if parts[0].startswith('host-') and int(parts[1]) not in alive:
                self.assertIn('has ended', said, self.what)
                self.assertNotIn('continues', said, self.what)
        # The store's clock says that it holds its lease, whatever this host's clock says.
        if not self.one_clock and before and before == self.worker() and before[0] in alive:
            self.assertNotIn('nobody works', said, self.what)


class ClocksOnSqlite(Jumps, OnSqlite):
    pass


class ClocksOnPostgres(Jumps, OnAServer):
    pass


class ClocksOnMariadb(Jumps, OnAServer):
    pass
