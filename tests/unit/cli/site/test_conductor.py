"""Tests of failures of ``kiln conductor``; for its work see tests/functional/cli."""

import contextlib
import sqlite3
import types

from kiln.cli.exit_codes import ExitCode
from kiln.cli.site.conductor import _Health
from kiln.clusters.exceptions import StoreError
from tests.unit.cli.shell import Shell
from tests.unit.cli.site_shell import SiteShell


class Refusing(Shell):
    def test_an_unusable_configuration_is_reported_at_once(self):
        self.config.write_text('[clusters]\nwork_source = rabbit://me:hush@h/kiln\n'
                               f'[db]\nurl = sqlite:///{self.folder}/kiln.db\n')  # fmt: skip
        said = self.fails(ExitCode.USAGE, 'conductor')
        self.assertIn('Cannot use work_source: it must be one of database, zookeeper:', said)
        self.assertNotIn('hush', said)

    def test_an_unusable_address_for_metrics_is_reported_at_once(self):
        for listen in ('9464', 'nowhere', '127.0.0.1:seven', '192.0.2.1:9464', '127.0.0.1:99999'):
            self.config.write_text(f'[clusters]\nmetrics_listen = {listen}\n'
                                   f'[db]\nurl = sqlite:///{self.folder}/kiln.db\n')  # fmt: skip
            with self.subTest(listen):
                said = self.fails(ExitCode.USAGE, 'conductor')
                self.assertIn(f"Cannot serve metrics at '{listen}'", said)

    def test_an_unusable_store_is_reported_at_once(self):
        self.config.write_text('[db]\nurl = postgresql://me:hush@127.0.0.1:1/kiln\n')
        said = self.fails(ExitCode.UNAVAILABLE, 'conductor')
        self.assertIn('Cannot read the store at postgresql://127.0.0.1:1/kiln', said)

    def test_a_conductor_ends_by_itself_once_its_store_cannot_be_used(self):
        url = f'sqlite:///{self.folder}/kiln.db'
        self.config.write_text(f'[db]\nurl = {url}\n')
        self.ok('db', 'upgrade')
        with contextlib.closing(sqlite3.connect(f'{self.folder}/kiln.db')) as connection:
            connection.execute('DROP TABLE lease')
        said = self.fails(ExitCode.BROKEN, 'conductor')
        self.assertIn('no such table: lease', said)
        self.assertIn("'kiln db restore FILE'", said)


class Health(SiteShell):
    def test_a_conductor_is_ready_once_it_works(self):
        with self.site() as site:
            health = _Health(site, 15.0)
            self.assertEqual(('', 'It is starting.'), (health.alive(), health.ready()))
            with site.conducting() as health.conductor:
                self.assertEqual(('', ''), (health.alive(), health.ready()))

    def test_a_conductor_that_does_nothing_for_long_is_not_alive(self):
        with self.site() as site:
            health = _Health(site, 15.0)
            health.conductor = types.SimpleNamespace(silent_s=59.0)
            self.assertEqual('', health.alive())
            health.conductor = types.SimpleNamespace(silent_s=61.0)
            self.assertEqual('It has done nothing for 61 s.', health.alive())
            self.assertEqual(health.alive(), health.ready())

    def test_without_its_store_a_conductor_is_alive_and_not_ready(self):
        def unreadable(limit):
            raise StoreError('Cannot read the store: the disk is gone. Bring it back.')

        operations = types.SimpleNamespace(runnable=unreadable)
        site = types.SimpleNamespace(store=types.SimpleNamespace(operations=operations))
        health = _Health(site, 15.0)
        health.conductor = types.SimpleNamespace(silent_s=1.0)
        self.assertIn('the disk is gone', health.ready())
        self.assertEqual('', health.alive())
