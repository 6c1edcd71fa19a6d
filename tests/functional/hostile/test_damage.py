"""Stores that are damaged: each command says so in a sentence, ends, and takes no machine away.

KILN_DAMAGES is the number of damaged stores on each database: 14, so that each kind has
a turn, or 70 at full size. KILN_SEED repeats them.
"""

import contextlib
import functools
import itertools
import os
import pathlib
import random
import shutil
import sqlite3
import tempfile
import unittest

import sqlalchemy as sa

from kiln.cli.exit_codes import ExitCode
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.db.tables.schema import metadata
from tests.functional.db.servers import MariadbServer, PostgresServer, shared
from tests.functional.hostile.carried import carry, made_anew
from tests.functional.hostile.runner import Runner
from tests.functional.hostile.site import SiteFolder

DAMAGES = int(os.environ.get('KILN_DAMAGES', '14'))
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


def a_file_of_something_else(path, dice):
    shutil.copy(path.parent / 'cloud.db', path)


def a_directory(path, dice):
    path.unlink()
    path.mkdir()


# ---- with statements, on each database ------------------------------------------------------


def a_missing_table(connection, dice):
    # One that no foreign key names.
    tables = sorted(set(metadata.tables) - {'cluster', 'operation'})
    connection.execute(sa.text(f'DROP TABLE {dice.choice(tables)}'))


def a_missing_column(connection, dice):
    table, column = dice.choice(
        (('node', 'cause'), ('cluster', 'outputs'), ('operation', 'args'), ('event', 'facts'))
    )
    connection.execute(sa.text(f'ALTER TABLE {table} DROP COLUMN {column}'))


def a_value_that_is_none(connection, dice):
    # kiln can tell such values from others: they are JSON, or words of a list.
    table, column = dice.choice((
        ('cluster', 'spec'), ('cluster', 'outputs'), ('cluster', 'trouble'), ('node', 'state'),
        ('node', 'cause'), ('operation', 'args'), ('operation', 'state'), ('operation', 'kind'),
        ('event', 'facts'),
    ))  # fmt: skip
    value = dice.choice(('', '{', '[]', 'x', '{"a": 1}'))
    connection.execute(sa.update(metadata.tables[table]).values({column: value}))


def no_rows(connection, dice):
    connection.execute(sa.delete(metadata.tables[dice.choice(('counter', 'operation', 'event'))]))


def a_later_revision(connection, dice):
    connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))


def no_revision(connection, dice):
    connection.execute(sa.text(dice.choice(
        ('DELETE FROM alembic_version', 'DROP TABLE alembic_version')
    )))  # fmt: skip


def something_else(connection, dice):
    metadata.drop_all(connection)
    connection.execute(sa.text('CREATE TABLE articles (id INTEGER PRIMARY KEY)'))


STATEMENTS = (
    a_missing_table, a_missing_column, a_value_that_is_none, no_rows, a_later_revision,
    no_revision, something_else,
)  # fmt: skip


def in_a_file(kind, path, dice):
    engine = sa.create_engine(f'sqlite:///{path}')
    with engine.begin() as connection:
        kind(connection, dice)
    engine.dispose()


#: Ways to damage a file of SQLite; each takes the path and the dice.
KINDS = (
    a_page_of_noise, a_page_of_zeros, a_few_bits, a_cut, noise_for_a_log, a_file_of_something_else,
    a_directory, *(functools.partial(in_a_file, kind) for kind in STATEMENTS),
)  # fmt: skip


def name_of(kind):
    return kind.args[0].__name__ if isinstance(kind, functools.partial) else kind.__name__


def setUpModule():
    DamagedOnPostgres.server = shared(PostgresServer)
    DamagedOnMariadb.server = shared(MariadbServer)


class Damaged:
    """Tests that run on each kind of database."""

    kinds = STATEMENTS

    def setUp(self):
        super().setUp()
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
        dice = random.Random(f'{SEED} {type(self).__name__}')
        for number, kind in zip(range(DAMAGES), itertools.cycle(self.kinds), strict=False):
            what = f'KILN_SEED={SEED}, number {number}: {name_of(kind)}'
            site = self.damaged(self.folder / str(number), kind, dice)
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


class DamagedFiles(Damaged, unittest.TestCase):
    kinds = KINDS

    def damaged(self, path, kind, dice):
        site = self.site.copied(path)
        kind(site.path / 'kiln.db', dice)
        return site


class OnAServer(unittest.TestCase):
    def setUp(self):
        super().setUp()
        # The tests after these use the same database.
        self.addCleanup(made_anew, self.server)

    def damaged(self, path, kind, dice):
        database = made_anew(self.server)
        carry(self.site.path / 'kiln.db', self.server)
        with database.writing() as connection:
            kind(connection, dice)
        return self.site.copied(path, self.server.url)


class DamagedOnPostgres(Damaged, OnAServer):
    pass


class DamagedOnMariadb(Damaged, OnAServer):
    pass


if __name__ == '__main__':
    unittest.main()
