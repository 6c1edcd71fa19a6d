"""Tests of failures of ``kiln conductor``; for its work see tests/functional/cli."""

import contextlib
import sqlite3
import types

from kiln.cli.exit_codes import ExitCode
from kiln.cli.site.health import Health
from kiln.cluster_service.site_metrics import SharedCensus
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

    def test_an_unusable_address_for_traces_is_reported_at_once(self):
        self.config.write_text('[compute]\ntracing_endpoint = 127.0.0.1:4318\n'
                               f'[db]\nurl = sqlite:///{self.folder}/kiln.db\n')  # fmt: skip
        said = self.fails(ExitCode.USAGE, 'conductor')
        self.assertIn("Cannot export traces to '127.0.0.1:4318'", said)

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


class HealthOfAConductor(SiteShell):
    def setUp(self):
        super().setUp()
        self.opened = self.enterContext(self.site())
        census = SharedCensus(self.opened.store, keep_s=0.0)
        self.health = Health(census, lease_s=15.0, watch_s=30.0)

    def conductor(self, **more):
        """Return the times of a conductor."""
        watch = types.SimpleNamespace(silent_s=more.pop('poll_s', 1.0))
        times = {'silent_s': 1.0, 'rounds_silent_s': 1.0, 'unrenewed_s': 1.0, **more}
        return types.SimpleNamespace(watch=watch, **times)

    def test_a_conductor_is_ready_once_it_works(self):
        self.assertEqual(('', 'It is starting.'), (self.health.alive(), self.health.ready()))
        with self.opened.conducting() as self.health.conductor:
            self.assertEqual(('', ''), (self.health.alive(), self.health.ready()))

    def test_a_conductor_that_does_nothing_for_long_is_not_alive(self):
        for what, most_s, wrong in (
            ('silent_s', 60.0, 'It has done nothing for 61 s.'),
            ('rounds_silent_s', 300.0, 'Its work on clusters has stood still for 301 s.'),
        ):
            with self.subTest(what):
                self.health.conductor = self.conductor(**{what: most_s - 1})
                self.assertEqual('', self.health.alive())
                self.health.conductor = self.conductor(**{what: most_s + 1})
                self.assertEqual(wrong, self.health.alive())
                self.assertEqual(wrong, self.health.ready())

    def test_a_conductor_without_leases_or_polls_is_alive_and_not_ready(self):
        for what, after_s, wrong in (
            ('unrenewed_s', 16.0, 'It has not renewed its leases for 16 s'),
            ('poll_s', 601.0, 'Its poll of the settled clusters has taken 601 s so far.'),
        ):
            with self.subTest(what):
                self.health.conductor = self.conductor(**{what: after_s})
                self.assertEqual('', self.health.alive())
                self.assertIn(wrong, self.health.ready())

    def test_without_its_store_a_conductor_is_alive_and_not_ready(self):
        self.health.conductor = self.conductor()
        self.change('DROP TABLE lease')
        self.assertIn('no such table: lease', self.health.ready())
        self.assertEqual('', self.health.alive())

    def test_with_tables_of_another_revision_a_conductor_is_not_ready(self):
        self.health.conductor = self.conductor()
        self.change("UPDATE alembic_version SET version_num = '9999'")
        said = self.health.ready()
        self.assertIn('The store has revision 9999, and this version of kiln needs', said)

    def change(self, statement):
        path = self.folder / 'state/kiln.db'
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
            connection.commit()
