"""Kill -9 of the process that works: no machine is lost or doubled, and nothing is stuck.

KILN_HOSTILE_KILLS is the number of kills on each database: 2, or 667 at full size. KILN_SEED
repeats them.
"""

import os
import random
import signal
import time

from kiln.clusters.models import NodeState
from tests.functional.db.servers import MariadbServer, PostgresServer, shared
from tests.functional.hostile.case import OnAServer, OnSqlite, Rough

KILLS = int(os.environ.get('KILN_HOSTILE_KILLS', '2'))
SEED = int(os.environ.get('KILN_SEED', random.randrange(10**6)))
#: Nodes at most, and kills of one operation at most.
MOST_NODES, MOST_KILLS = 8, 12
FAULTS = (
    'build:timeout_after:times=2,probability=0.3; build:lose_answer:times=2,probability=0.3; '
    'build:capacity:times=2,probability=0.2; build:error:times=2,probability=0.2; '
    'find_build:refuse:times=2,probability=0.3; list:refuse:times=2,probability=0.3; '
    'delete:timeout_before:times=2,probability=0.3; delete:lose_answer:times=2,probability=0.3'
)


def setUpModule():
    KillsOnPostgres.server = shared(PostgresServer)
    KillsOnMariadb.server = shared(MariadbServer)


class Kills(Rough):
    """Tests that run on each database."""

    faults = FAULTS

    def setUp(self):
        super().setUp()
        self.dice = random.Random(f'{SEED} {type(self).__name__}')
        #: The processes that could work, by their numbers.
        self.workers = {}
        self.count, self.image, self.killed = 3, 'one', 0
        self.what = f'KILN_SEED={SEED}'
        self.up()

    def test_nothing_is_lost_doubled_orphaned_or_stuck(self):
        rounds = 0
        while self.killed < KILLS:
            rounds += 1
            self.round(rounds)
        # The last one, and with it all that it has made.
        self.delete()
        self.kill_some()
        self.ended()
        self.assertEqual(({}, [], True), self.site.standing(), self.what)
        print(f'\nKILN_SEED={SEED}: {self.killed} kills in {rounds} rounds', flush=True)

    def round(self, number):
        operation = self.dice.choice(
            (self.declare, self.scale, self.remove, self.replace, self.upgrade, self.delete)
        )
        self.what = f'KILN_SEED={SEED}, round {number}: {operation.__name__}'
        operation()
        self.kill_some()
        self.ended()
        print(f'{self.what}, kill {self.killed}', flush=True)
        self.assert_each_has_its_machine(self.what)
        # Whatever the faults have made of it.
        self.up()

    # ---- operations, which a worker begins at once -------------------------------------------

    def declare(self):
        self.count = self.dice.randint(1, MOST_NODES)
        self.work('up', self.site.page('web', self.count, self.image), '--yes')

    def scale(self):
        self.count = self.dice.randint(1, MOST_NODES)
        self.work('cluster', 'scale', 'web', f'work={self.count}', '--yes')

    def remove(self):
        gone = self.some()
        self.count -= len(gone)
        if gone:
            self.work('node', 'remove', 'web', *gone, '--yes')

    def replace(self):
        if names := self.some():
            self.work('node', 'replace', 'web', *names, '--yes')

    def upgrade(self):
        self.image = f'image-{self.dice.randrange(10**6)}'
        self.work('cluster', 'upgrade', 'web', '--image', self.image, '--yes')

    def delete(self):
        self.work('cluster', 'delete', 'web', '--yes')

    def some(self):
        """Return the names of some nodes."""
        nodes = [node for node in self.store.nodes.of(self.web().id)
                 if node.state is not NodeState.GONE]  # fmt: skip
        # The driver does not let the oldest one be removed.
        nodes.remove(min(nodes, key=lambda node: (node.created_at, node.id)))
        names = sorted(node.name for node in nodes)
        return self.dice.sample(names, self.dice.randint(min(1, len(names)), len(names)))

    def work(self, *words):
        """Begin an operation: a command does the work itself, or leaves it to a conductor."""
        if self.dice.random() < 0.5:
            self.command(*words, '--no-wait')
            self.another()
        else:
            self.keep(self.start(self.dice.choice(self.hosts), *words))

    def another(self, dead=''):
        """Start another conductor, as a supervisor of services would: mostly on the same host."""
        same = [one for one in self.hosts if dead.startswith(one.name)]
        self.keep(self.conductor(self.dice.choice(same * 3 + self.hosts)))

    def keep(self, process):
        self.workers[process.pid] = process

    # ---- kills -------------------------------------------------------------------------------

    def kill_some(self):
        """Kill the worker once or several times, and start another one each time."""
        for _ in range(self.dice.randint(1, min(MOST_KILLS, KILLS))):
            # Faults and luck can make an operation fast.
            self.until(lambda: self.worker() or self.rests(), f'{self.what}: nobody works')
            if self.rests():
                return
            # Long after it has begun, or while it begins.
            time.sleep(self.dice.uniform(0.0, self.dice.choice((0.05, 0.4))))
            found = self.worker()
            if found is not None and found[0] in self.workers:
                pid, owner = found
                self.workers.pop(pid).end(signal.SIGKILL)
                self.note(f'{time.time():.3f} killed {owner}')
                self.killed += 1
                self.another(owner)

    def rests(self):
        """Return True if nothing is under way, and no command could still submit something."""
        return self.under_way() is None and not any(
            process.lives() and 'conductor' not in process.args
            for process in self.workers.values()
        )

    def ended(self):
        """Let all end: first the work, then the workers."""
        if not any(process.lives() for process in self.workers.values()):
            self.another()
        self.until(self.rests, f'{self.what}: it is stuck')
        while self.workers:
            _, process = self.workers.popitem()
            if process.lives():
                process.end()

    def up(self):
        """Declare it once more, in peace: then it is exactly so."""
        self.command('up', self.site.page('web', self.count, self.image), '--yes')
        self.assert_as_declared(self.what, self.count, self.image)


class KillsOnSqlite(Kills, OnSqlite):
    pass


class KillsOnPostgres(Kills, OnAServer):
    pass


class KillsOnMariadb(Kills, OnAServer):
    pass
