"""Stores that are damaged: each command says so in a sentence, ends, and takes no machine away.

KILN_DAMAGES is the number of damaged stores: 12, or 200 at full size. KILN_SEED repeats them.
"""

import contextlib
import itertools
import os
import pathlib
import random
import shutil
import sqlite3
import tempfile
import unittest

from kiln.cli.exit_codes import ExitCode
from kiln.compute_drivers.noop.cloud import NoopCloud
from tests.functional.hostile.runner import Runner
from tests.functional.hostile.site import SiteFolder

DAMAGES = int(os.environ.get('KILN_DAMAGES', '12'))
SEED = int(os.environ.get('KILN_SEED', random.randrange(10**6)))
PAGE = 4096
#: Each is told what it is by its exit code and its words, which the test looks at.
COMMANDS = (
    ('db', 'check'), ('cluster', 'list'), ('node', 'list', 'web'), ('why', 'web'),
    ('plan', '{folder}/web-5-one.yaml'), ('up', '{folder}/web-5-one.yaml', '--yes'),
    ('cluster', 'check', 'web'), ('db', 'backup', '{folder}/backup.db'), ('db', 'upgrade'),
)  # fmt: skip


def a_page_of_noise(path, dice):
    content = bytearray(path.read_bytes())
    at = dice.randrange(len(content) // PAGE) * PAGE
    content[at : at + PAGE] = dice.randbytes(PAGE)
    path.write_bytes(content)


def a_page_of_zeros(path, dice):
    content = bytearray(path.read_bytes())
    at = dice.randrange(len(content) // PAGE) * PAGE
    content[at : at + PAGE] = bytes(PAGE)
    path.write_bytes(content)


def a_few_bits(path, dice):
    content = bytearray(path.read_bytes())
    for _ in range(dice.randrange(1, 200)):
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)


def a_cut(path, dice):
    content = path.read_bytes()
    path.write_bytes(content[: dice.randrange(len(content))])


def noise_for_a_log(path, dice):
    path.with_name(path.name + '-wal').write_bytes(dice.randbytes(dice.randrange(1, 20_000)))


def a_missing_table(path, dice):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        tables = sorted(name for (name,) in connection.execute(query))
        connection.execute(f'DROP TABLE {dice.choice(tables)}')


def a_file_of_something_else(path, dice):
    shutil.copy(path.parent / 'cloud.db', path)


def a_directory(path, dice):
    path.unlink()
    path.mkdir()


def a_later_revision(path, dice):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()


#: Ways to damage a file of SQLite; each takes the path and the dice.
KINDS = (
    a_page_of_noise, a_page_of_zeros, a_few_bits, a_cut, noise_for_a_log, a_missing_table,
    a_file_of_something_else, a_directory, a_later_revision,
)  # fmt: skip


class Damaged(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.runner = Runner()
        self.addCleanup(self.runner.close)
        self.site = SiteFolder(self.folder / 'begin')
        path = self.site.page('web', 3)
        self.site.page('web', 5)
        for words in ('db', 'upgrade'), ('up', path, '--yes'):
            self.assertEqual(0, self.runner.run(*self.site.argv(*words)).code)
        # All of it in one file.
        with contextlib.closing(sqlite3.connect(self.site.path / 'kiln.db')) as connection:
            connection.execute('PRAGMA wal_checkpoint(TRUNCATE)')

    def machines(self, site):
        with contextlib.closing(NoopCloud(str(site.path / 'cloud.db'))) as cloud:
            return cloud.count()

    def test_every_command_says_so_and_ends(self):
        dice = random.Random(SEED)
        for number, kind in zip(range(DAMAGES), itertools.cycle(KINDS), strict=False):
            what = f'KILN_SEED={SEED}, number {number}: {kind.__name__}'
            site = self.site.copied(self.folder / str(number))
            store = site.path / 'kiln.db'
            kind(store, dice)
            for words in COMMANDS:
                with self.subTest(what, words=words):
                    self.look(site, words)
            # A change is carried out whole or not at all.
            self.assertIn(self.machines(site), (3, 5), what)
            shutil.rmtree(site.path)

    def look(self, site, words):
        code, out, err = self.runner.run(*site.argv(*words))
        self.assertIsNotNone(code, f'it hung: {out}{err}')
        self.assertIn(code, set(ExitCode), out + err)
        self.assertNotIn(code, (ExitCode.UNFORESEEN, ExitCode.INTERRUPTED), out + err)
        for word in ('Traceback', 'defect of kiln'):
            self.assertNotIn(word, out + err)
        if code not in (ExitCode.OK, ExitCode.CHANGES):
            self.assertTrue(err.startswith('kiln: ') or words == ('db', 'check'), err)
            self.assertIn(len(out + err), range(1, 4000))


if __name__ == '__main__':
    unittest.main()
