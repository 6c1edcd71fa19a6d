"""The commands about the database: its version, its health, its keys."""

import ast
import json
import pathlib
import sqlite3
import subprocess
import sys
import unittest

from kiln.cli.exit_codes import ExitCode
from kiln.cli.site.stores import configured_store
from kiln.clusters.models import Event, Secret
from kiln.conf.db import default_url
from kiln.db.tables.schema import REVISION
from tests.unit.cli.shell import Shell
from tests.unit.db import samples
from tests.unit.db.fernet import as_before


class Commands(Shell):
    def setUp(self):
        super().setUp()
        self.path = self.folder / 'state' / 'kiln.db'
        self.path.parent.mkdir()
        self.say('')

    def say(self, more):
        self.config.write_text(f'[db]\nurl = sqlite:///{self.path}\n{more}')

    def store(self):
        app = self.app()
        app.run(['--config-file', str(self.config), 'db', 'check'])
        store = configured_store(app.settings)
        self.addCleanup(store.close)
        return store

    def sql(self, statement):
        with sqlite3.connect(self.path) as db:
            found = db.execute(statement).fetchall()
        db.close()
        return found

    def words(self):
        lines = (self.path.with_suffix('.keys')).read_text().splitlines()
        return [line.split()[0] for line in lines[1:]]

    def test_the_first_command_creates_the_file(self):
        checked = self.json('db', 'check')
        self.assertEqual((True, f'file {self.path}'), (checked['usable'], checked['store']))
        self.assertEqual((0, []), (checked['cluster'], checked['dangling_leases']))

    def test_a_store_in_a_folder_that_does_not_exist_is_refused(self):
        self.path.parent.rmdir()
        for words in (['db', 'check'], ['cluster', 'list'], ['db', 'upgrade']):
            with self.subTest(words):
                said = self.fails(ExitCode.USAGE, *words)
                self.assertIn(f'there is no folder {self.path.parent}. Create it', said)
        self.assertFalse(self.path.parent.exists())

    def test_upgrade_reports_what_it_did(self):
        self.ok('db', 'upgrade')
        self.assertIn(f'has revision {REVISION}, as this kiln needs', self.err)
        self.sql('DROP TABLE alembic_version')
        for name in ('step', 'operation', 'node', 'secret', 'cluster', 'cluster_template', 'lease',
                     'event', 'counter', 'holding', 'tombstone'):  # fmt: skip
            self.sql(f'DROP TABLE {name}')
        self.assertEqual(ExitCode.UNAVAILABLE, self.sh('db', 'check', '-f', 'json'))
        self.assertIs(False, json.loads(self.out)['usable'])
        self.ok('db', 'upgrade')
        self.assertIn(f'has revision {REVISION}; it had no tables', self.err)
        self.ok('db', 'check')

    def test_check_names_damage_and_what_to_do(self):
        self.ok('db', 'upgrade')
        self.sql('DROP TABLE step')
        checked = self.fails(ExitCode.UNAVAILABLE, 'db', 'check', '-f', 'json')
        self.assertEqual(['it lacks tables: step'], json.loads(self.out)['faults'])
        self.assertIn("The store cannot be used. Replace it by a backup: 'kiln db rest", checked)
        self.assertIn('lacks tables', self.fails(ExitCode.UNAVAILABLE, 'db', 'upgrade'))

    def test_a_backup_is_restored(self):
        store, copy = self.store(), str(self.folder / 'copy.db')
        self.ok('db', 'backup', copy)
        self.assertIn(f'Keep {self.path.with_suffix(".keys")} too', self.err)
        store.events.add(Event(cluster_id='c', kind='k', message='new'))
        self.assertIn(f'there is a file {copy}', self.fails(6, 'db', 'backup', copy))
        self.ok('db', 'restore', copy)
        self.assertIn('the former one is in ', self.err)
        self.assertEqual((), store.events.after())

    def test_check_lists_leases_of_dead_owners(self):
        store = self.store()
        store.leases.claim('c-web', 'host-1', -1.0)
        (lease,) = self.json('db', 'check')['dangling_leases']
        self.assertIn('c-web of host-1, expired at 20', lease)

    def test_purge_removes_old_records(self):
        store = self.store()
        store.events.add(Event(cluster_id='c', kind='k', message='old', at=1.0))
        store.events.add(Event(cluster_id='c', kind='k', message='new'))
        purged = self.json('db', 'purge', '--older-than', '30d')
        self.assertEqual({'operations': 0, 'nodes': 0, 'events': 1, 'tombstones': 0}, purged)
        self.assertEqual(['new'], [one.message for one in store.events.after()])

    def test_purge_refuses_a_time_without_a_unit(self):
        for span in ('30', '-1d', 'd', '3y', ''):
            with self.subTest(span):
                said = self.fails(ExitCode.USAGE, 'db', 'purge', f'--older-than={span}')
                self.assertIn('is not a number followed by s, m, h, d or w', said)
        self.fails(ExitCode.USAGE, 'db', 'purge')

    def test_rotate_key_refuses_a_database_without_tables_with_the_command_that_makes_them(self):
        sqlite3.connect(self.path).close()
        said = self.fails(ExitCode.UNAVAILABLE, 'db', 'rotate-key')
        self.assertIn("it has no tables of kiln. Run 'kiln db upgrade' to create them.", said)

    def test_rotate_key_leaves_all_secrets_readable(self):
        store = self.store()
        store.clusters.create(samples.cluster(), samples.operation())
        secret = Secret(cluster_id='c-web', name='token', value='hush')
        with store.writing(store.leases.claim('c-web', 'me', 60)) as batch:
            batch.secret(secret)
        before = self.sql('SELECT value FROM secret')
        self.ok('db', 'rotate-key', '--prepare')
        self.assertEqual(before, self.sql('SELECT value FROM secret'))
        self.assertEqual(['current', 'next', 'tokens'], self.words())
        self.ok('db', 'rotate-key')
        self.assertIn('1 secrets are encrypted with a new key', self.err)
        self.assertNotEqual(before, self.sql('SELECT value FROM secret'))
        self.assertEqual(['current', 'former', 'tokens'], self.words())
        self.assertEqual(secret, store.secrets.read('c-web', 'token'))

    def test_check_counts_secrets_of_a_former_version_until_the_rotation(self):
        store = self.store()
        store.clusters.create(samples.cluster(), samples.operation())
        secret = Secret(cluster_id='c-web', name='token', value='hush')
        with store.writing(store.leases.claim('c-web', 'me', 60)) as batch:
            batch.secret(secret)
        former = as_before(self.path.with_suffix('.keys'), 'hush')
        self.sql(f"UPDATE secret SET value = '{former}'")
        self.assertEqual(1, self.json('db', 'check')['unbound_secrets'])
        self.ok('db', 'rotate-key')
        self.assertEqual(0, self.json('db', 'check')['unbound_secrets'])
        self.assertEqual(secret, store.secrets.read('c-web', 'token'))

    def test_an_unusable_store_is_one_line_and_a_status(self):
        self.ok('db', 'check')
        self.sql("UPDATE alembic_version SET version_num = '9999'")
        said = self.fails(ExitCode.UNAVAILABLE, 'db', 'upgrade')
        self.assertIn('9999', said)
        self.assertEqual(1, len(said.splitlines()))

    def test_a_password_is_in_no_error(self):
        self.config.write_text('[db]\nurl = oracle://kiln:hunter2@db/kiln\n')
        self.assertNotIn('hunter2', self.fails(ExitCode.UNAVAILABLE, 'db', 'check'))

    def test_a_missing_package_is_named_with_its_extra(self):
        # In one interpreter; the second module is missing while the first is present.
        cases = {
            'psycopg': ('postgresql', 'postgresql://kiln@db/kiln'),
            'sqlalchemy': ('clusters', f'sqlite:///{self.path}'),
        }
        configs = []
        for missing, (_, url) in cases.items():
            config = self.folder / f'{missing}.conf'
            config.write_text(f'[db]\nurl = {url}\n')
            configs.append((missing, str(config)))
        code = (
            'import io, sys; from kiln.cli.app import KilnApp\n'
            f'for missing, config in {configs!r}:\n'
            '    for name in [*sys.modules]:\n'
            '        if name.startswith(("sqlalchemy", "kiln.db")): del sys.modules[name]\n'
            '    sys.modules[missing] = None\n'
            '    err = io.StringIO()\n'
            '    code = KilnApp(stderr=err).run(["--config-file", config, "db", "check"])\n'
            '    print(repr((int(code), err.getvalue())))\n'
        )
        done = subprocess.run(
            [sys.executable, '-c', code],
            capture_output=True, text=True, cwd=pathlib.Path(__file__).parents[4],
        )  # fmt: skip
        self.assertEqual('', done.stderr)
        for (missing, (extra, _)), line in zip(
            cases.items(), done.stdout.splitlines(), strict=True
        ):
            with self.subTest(missing):
                status, said = ast.literal_eval(line)
                self.assertNotEqual(0, status)
                self.assertIn(f"Run: pip install 'kiln-compute[{extra}]'", said)
                self.assertIn(missing, said)
                self.assertEqual(1, len(said.splitlines()), said)


class DefaultPlace(unittest.TestCase):
    def test_the_default_store_is_in_the_state_directory(self):
        self.assertEqual('sqlite:////s/kiln/kiln.db', default_url({'XDG_STATE_HOME': '/s'}))
        home = pathlib.Path.home()
        self.assertEqual(f'sqlite:///{home}/.local/state/kiln/kiln.db', default_url({}))
