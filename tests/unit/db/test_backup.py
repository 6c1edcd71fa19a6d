"""Backups are taken while processes write, and restored whole or not at all."""

import contextlib
import pathlib
import shutil
import sqlite3
import tempfile
import threading
import unittest

from kiln.clock import SYSTEM_CLOCK
from kiln.clusters.exceptions import StoreError
from kiln.clusters.models import Event
from kiln.db.backup import back_up, restore
from kiln.db.database import Database
from kiln.db.soundness import faults
from kiln.db.store import open_database, open_store
from kiln.db.tables.schema import REVISION
from kiln.db.tables.upgrade import upgrade
from kiln.db.upkeep import check


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.folder / 'kiln.db'
        self.copy = self.folder / 'backup.db'
        self.store().close()

    def store(self):
        store = open_store(f'sqlite:///{self.path}')
        self.addCleanup(store.close)
        return store

    def database(self, path=None):
        database = open_database(f'sqlite:///{path or self.path}', clock=SYSTEM_CLOCK)
        self.addCleanup(database.close)
        return database

    def messages(self, path=None):
        with contextlib.closing(open_store(f'sqlite:///{path or self.path}')) as store:
            return [one.message for one in store.events.after(limit=10_000)]

    def tell(self, message):
        with contextlib.closing(self.store()) as store:
            store.events.add(Event(cluster_id='c', kind='k', message=message))

    def spoil(self, content=b'\0' * 64, every=3):
        """Overwrite the beginning of pages behind the first two."""
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            db.execute('PRAGMA wal_checkpoint(TRUNCATE)')
        with self.path.open('r+b') as file:
            for page in range(2, self.path.stat().st_size // 4096, every):
                file.seek(page * 4096)
                file.write(content)

    def sql(self, *statements):
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            for one in statements:
                db.execute(one)
            db.commit()


class Faults(Case):
    def test_a_sound_store_has_no_faults(self):
        self.assertEqual((), faults(self.database()))
        self.assertTrue(check(self.database()).usable)

    def test_damage_is_found_and_prevents_an_upgrade(self):
        for content in (b'\0' * 64, b'\xa5' * 4096):
            with self.subTest(content[:1]):
                self.path.unlink()
                self.store().close()
                self.spoil(content)
                database = self.database()
                health = check(database)
                self.assertFalse(health.usable)
                self.assertIn('it is damaged: ', health.faults[0].text)
                with self.assertRaisesRegex(StoreError, "damaged: .* 'kiln db restore FILE'"):
                    upgrade(database)

    def test_a_file_that_is_no_database_is_damaged(self):
        self.path.write_bytes(b'not a database at all' * 400)
        self.assertIn('not a database', faults(self.database())[0].text)

    def test_a_missing_table_is_named(self):
        self.sql('DROP TABLE step')
        (fault,) = faults(self.database())
        self.assertEqual('it lacks tables: step', fault.text)
        with self.assertRaisesRegex(StoreError, 'lacks tables: step'):
            upgrade(self.database())

    def test_a_missing_column_is_named(self):
        self.sql('ALTER TABLE node DROP COLUMN cause')
        (fault,) = faults(self.database())
        self.assertEqual('it lacks columns: node.cause', fault.text)

    def test_a_database_of_something_else_stays_as_it_is(self):
        for made in (
            ['CREATE TABLE song (id INTEGER)'],
            ['CREATE TABLE song (id INTEGER)', 'CREATE TABLE alembic_version (version_num TEXT)'],
        ):
            with self.subTest(made):
                self.path.unlink()
                self.sql(*made)
                with self.assertRaisesRegex(StoreError, 'something else, .*: song. Correct'):
                    upgrade(self.database())
                with contextlib.closing(sqlite3.connect(self.path)) as db:
                    there = db.execute('SELECT name FROM sqlite_master').fetchall()
                self.assertEqual(len(made), len(there))

    def test_an_empty_database_gets_its_tables(self):
        self.path.unlink()
        self.sql()
        upgrade(self.database())
        self.assertEqual(REVISION, check(self.database()).revision)


class Backups(Case):
    def test_a_backup_has_what_was_there_and_is_private(self):
        self.tell('before')
        back_up(self.database(), self.copy)
        self.tell('after')
        self.assertEqual(['before'], self.messages(self.copy))
        self.assertEqual(0o600, self.copy.stat().st_mode & 0o777)
        self.assertEqual({'backup.db', 'kiln.db'}, {
            one.name for one in self.folder.iterdir() if one.suffix == '.db'
        })  # fmt: skip

    def test_a_backup_during_writes_is_one_moment_and_holds_nobody_up(self):
        database, store = self.database(), self.store()
        stop, written = threading.Event(), []

        def write():
            while not stop.is_set():
                store.events.add(Event(cluster_id='c', kind='k', message=str(len(written))))
                written.append(None)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(5):
                copy = self.folder / f'{number}.db'
                least = len(written)
                back_up(database, copy)
                most = len(written) + 1
                found = self.messages(copy)
                self.assertEqual([str(one) for one in range(len(found))], found)
                self.assertTrue(least <= len(found) <= most, (least, len(found), most))
                self.assertEqual((), faults(self.database(copy)))
        finally:
            stop.set()
            writer.join()

    def test_a_file_that_exists_and_a_folder_that_does_not_are_refused(self):
        self.copy.write_text('mine')
        with self.assertRaisesRegex(StoreError, 'there is a file .*backup.db. Name another'):
            back_up(self.database(), self.copy)
        self.assertEqual('mine', self.copy.read_text())
        with self.assertRaisesRegex(StoreError, 'there is no folder'):
            back_up(self.database(), self.folder / 'nowhere' / 'x.db')
        with self.assertRaisesRegex(StoreError, 'Cannot write .*File name too long'):
            back_up(self.database(), self.folder / ('x' * 300))

    def test_a_server_has_tools_of_its_own_and_is_not_called_damaged_if_it_is_away(self):
        # Nothing listens at port 1.
        server = Database('postgresql://kiln@127.0.0.1:1/kiln', clock=SYSTEM_CLOCK)
        self.addCleanup(server.close)
        with self.assertRaisesRegex(StoreError, 'it is not a file. .*pg_dump'):
            back_up(server, self.copy)
        with self.assertRaises(StoreError) as caught:
            faults(server)
        self.assertTrue(caught.exception.retryable)

    def test_a_damaged_store_is_not_backed_up(self):
        self.spoil()
        with self.assertRaisesRegex(StoreError, 'Cannot back up .* damaged'):
            back_up(self.database(), self.copy)
        self.assertFalse(self.copy.exists())


class Restores(Case):
    def setUp(self):
        super().setUp()
        self.tell('kept')
        back_up(self.database(), self.copy)

    def test_a_restore_brings_back_what_the_backup_has_and_keeps_the_former_store(self):
        self.tell('later')
        former = restore(self.database(), self.copy)
        self.assertEqual([], list(self.folder.glob('.*')), 'drafts are removed')
        self.assertEqual(['kept'], self.messages())
        self.assertEqual(['kept', 'later'], self.messages(former))

    def test_a_process_that_has_the_store_open_sees_the_backup(self):
        store = self.store()
        store.events.add(Event(cluster_id='c', kind='k', message='later'))
        restore(self.database(), self.copy)
        self.assertEqual(['kept'], [one.message for one in store.events.after()])
        store.events.add(Event(cluster_id='c', kind='k', message='on top'))
        self.assertEqual(['kept', 'on top'], self.messages())

    def test_a_damaged_store_is_replaced(self):
        for spoil in (self.spoil, lambda: self.path.write_bytes(b'no database' * 999)):
            with self.subTest(spoil):
                spoil()
                former = restore(self.database(), self.copy)
                self.assertEqual((), faults(self.database()))
                self.assertEqual(['kept'], self.messages())
                self.assertTrue(former.exists())
                former.unlink()

    def test_what_is_no_sound_backup_is_refused_and_nothing_changes(self):
        self.tell('later')
        empty, other, broken = (self.folder / name for name in ('empty', 'other', 'broken'))
        for path, statement in ((empty, 'PRAGMA user_version = 1'), (other, 'CREATE TABLE a (b)')):
            with contextlib.closing(sqlite3.connect(path)) as db:
                db.execute(statement)
        shutil.copy(self.copy, broken)
        with broken.open('r+b') as file:
            file.truncate(broken.stat().st_size // 2)
        cases = {
            empty: 'no tables of kiln', other: 'something else', broken: 'malformed|damaged',
            self.folder / 'nothing': 'there is no such file',
            self.folder / ('x' * 300): 'File name too long',
        }  # fmt: skip
        for path, why in cases.items():
            with self.subTest(path.name), self.assertRaisesRegex(StoreError, why):
                restore(self.database(), path)
        self.assertEqual(['kept', 'later'], self.messages())

    def test_a_backup_of_a_later_version_is_refused(self):
        with contextlib.closing(sqlite3.connect(self.copy)) as db:
            db.execute("UPDATE alembic_version SET version_num = '9999'")
            db.commit()
        self.tell('later')
        with self.assertRaisesRegex(StoreError, 'revision 9999 of a later kiln. Install'):
            restore(self.database(), self.copy)
        self.assertEqual(['kept', 'later'], self.messages())

    def test_a_file_that_is_being_written_stays_and_is_not_put_aside(self):
        self.tell('later')
        database = open_database(f'sqlite:///{self.path}', clock=SYSTEM_CLOCK, lock_timeout_s=0.1)
        self.addCleanup(database.close)
        with contextlib.closing(sqlite3.connect(self.path)) as writer:
            writer.execute('BEGIN IMMEDIATE')
            with self.assertRaisesRegex(StoreError, 'has been writing for 0.1 s'):
                restore(database, self.copy)
        self.assertEqual(['kept', 'later'], self.messages())
        self.assertEqual([], list(self.folder.glob('*.before-*')))

    def test_a_path_with_signs_of_an_address_is_a_path(self):
        copy = self.folder / 'a copy?mode=rw#1%20.db'
        back_up(self.database(), copy)
        restore(self.database(), copy)
        self.assertEqual(['kept'], self.messages())

    def test_nothing_is_restored_while_a_conductor_works(self):
        self.store().leases.claim('c-web', 'host-1', 60.0)
        with self.assertRaisesRegex(StoreError, 'host-1 works on clusters. Stop all conductors'):
            restore(self.database(), self.copy)
