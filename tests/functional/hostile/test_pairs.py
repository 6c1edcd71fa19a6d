"""Two users at once: what comes of two commands is what would come of them one after the other.

KILN_PAIRS is the number of pairs on each database: 6, or 667 at full size; KILN_SEED repeats
them. What one order leads to is found out on a file.
"""

import itertools
import os
import pathlib
import random
import tempfile
import time
import unittest

from kiln.cli.exit_codes import ExitCode
from tests.functional.db.servers import MariadbServer, PostgresServer, shared
from tests.functional.hostile.carried import carry
from tests.functional.hostile.runner import Runner
from tests.functional.hostile.site import SiteFolder

PAIRS = int(os.environ.get('KILN_PAIRS', '6'))
SEED = int(os.environ.get('KILN_SEED', random.randrange(10**6)))
#: Seconds between the beginnings of two commands; each takes a few tenths of a second.
LATEST_S = 0.4
#: Commands on cluster web, which has three nodes.
COMMANDS = {
    'up as it is': ('up', '{folder}/web-3-one.yaml', '--yes'),
    'up with more': ('up', '{folder}/web-5-one.yaml', '--yes'),
    'up with less': ('up', '{folder}/web-1-one.yaml', '--yes'),
    'up with another image': ('up', '{folder}/web-3-two.yaml', '--yes'),
    'up of another cluster': ('up', '{folder}/api-2-one.yaml', '--yes'),
    'scale up': ('cluster', 'scale', 'web', 'work=4', '--yes'),
    'scale down': ('cluster', 'scale', 'web', 'work=2', '--yes'),
    'upgrade': ('cluster', 'upgrade', 'web', '--image', 'three', '--yes'),
    'rollback': ('cluster', 'rollback', 'web', '--yes'),
    'rebuild': ('cluster', 'rebuild', 'web', '--yes'),
    'check': ('cluster', 'check', 'web'),
    'delete': ('cluster', 'delete', 'web', '--yes'),
    'plan': ('plan', '{folder}/web-5-one.yaml', '--detailed-exitcode'),
    'show': ('cluster', 'show', 'web'),
    'why': ('why', 'web'),
    'list': ('cluster', 'list'),
}
REFUSED = ExitCode.CONFLICT


def setUpModule():
    PairsOnPostgres.server = shared(PostgresServer)
    PairsOnMariadb.server = shared(MariadbServer)


class Pairs:
    """Tests that run on each database."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.runners = [Runner(), Runner()]
        for one in self.runners:
            self.addCleanup(one.close)
        self.numbers = itertools.count()
        #: The site after some commands, one after the other, and the codes of these.
        self.known = {}
        site = SiteFolder(self.folder / 'begin')
        for page in (('web', 3), ('web', 5), ('web', 1), ('web', 3, 'two'), ('api', 2)):
            site.page(*page)
        self.assertEqual(0, self.run_in(site, 'db', 'upgrade'))
        self.known[()] = site, ()
        site = self.after('up as it is')[0]
        # Something to go back to.
        self.assertEqual(0, self.run_in(site, 'cluster', 'scale', 'web', 'work=3', '--yes'))
        self.known = {(): (site, ())}

    def run_in(self, site, *words):
        ended = self.runners[0].run(*site.argv(*words))
        self.check(words, ended)
        return ended.code

    def check(self, words, ended):
        self.assertIsNotNone(ended.code, f'{words} hung: {ended}')
        self.assertIn(ended.code, set(ExitCode), ended)
        for word in ('Traceback', 'defect of kiln', 'Interrupted.'):
            self.assertNotIn(word, ended.out + ended.err)

    def copied(self, site):
        return site.copied(self.folder / str(next(self.numbers)))

    def after(self, *names):
        """Return the site after commands, one after the other, and their codes."""
        if names not in self.known:
            before, codes = self.after(*names[:-1])
            site = self.copied(before)
            code = self.run_in(site, *COMMANDS[names[-1]])
            self.known[names] = site, (*codes, code)
        return self.known[names]

    def expected(self, one, other):
        """Return what can come of two commands: their codes, and what stands."""
        for first, second, turn in ((one, other, 1), (other, one, -1)):
            both, (code, later) = self.after(first, second)
            yield (code, later)[::turn], both.standing()
            # The second is refused because of the first.
            alone, (code,) = self.after(first)
            yield (code, REFUSED)[::turn], alone.standing()
            # A deletion cancels what is under way, whose command says so.
            if second == 'delete':
                yield (ExitCode.INTERRUPTED, 0)[::turn], self.after(second)[0].standing()
            # The second follows what the first has begun: they ask for the same.
            if self.after(second)[0].standing() == alone.standing():
                yield (code, code), alone.standing()

    def test_each_outcome_is_that_of_one_order(self):
        dice = random.Random(f'{SEED} {type(self).__name__}')
        unexplained = []
        for number in range(PAIRS):
            names = one, other = dice.choices(list(COMMANDS), k=2)
            expected = list(self.expected(one, other))
            site, pause_s = self.fresh(self.after()[0]), dice.uniform(0, LATEST_S)
            self.runners[0].begin(*site.argv(*COMMANDS[one]))
            time.sleep(pause_s)
            self.runners[1].begin(*site.argv(*COMMANDS[other]))
            ended = [runner.end() for runner in self.runners]
            for name, end in zip(names, ended, strict=True):
                self.check(name, end)
            found = tuple(end.code for end in ended), site.standing()
            if found not in expected:
                unexplained.append((number, names, round(pause_s, 3), found, expected, ended))
        self.assertEqual([], unexplained, f'KILN_SEED={SEED}')

        print(f'\nKILN_SEED={SEED}: {PAIRS} pairs', flush=True)


class PairsOnSqlite(Pairs, unittest.TestCase):
    def fresh(self, site):
        return self.copied(site)


class OnAServer(unittest.TestCase):
    def fresh(self, site):
        carry(site.path / 'kiln.db', self.server)
        return site.copied(self.folder / str(next(self.numbers)), self.server.url)


class PairsOnPostgres(Pairs, OnAServer):
    pass


class PairsOnMariadb(Pairs, OnAServer):
    pass


if __name__ == '__main__':
    unittest.main()
