"""Tests of opening a store, and of the errors where that fails."""

import os
import pathlib
import queue
import socket
import sqlite3
import stat
import tempfile
import threading
import unittest

import sqlalchemy as sa

from kiln.clock import SYSTEM_CLOCK
from kiln.clusters.exceptions import StoreBroken, StoreError
from kiln.db.database import Database, parse_url
from kiln.db.silence import ServerSilence
from kiln.db.store import SERVER_KEYS, key_file, open_database, open_store
from kiln.testing.clock import VirtualClock
from tests.unit.db import samples
from tests.unit.db.case import StoreCase
from tests.unit.plugins import credentials


class Opening(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.folder / 'new' / 'kiln.db'
        self.url = f'sqlite:///{self.path}'

    def mode(self, path):
        return stat.S_IMODE(path.stat().st_mode)

    def pragma(self, name):
        database = open_database(self.url, clock=SYSTEM_CLOCK)
        self.addCleanup(database.close)
        with database.reading() as connection:
            return connection.exec_driver_sql(f'PRAGMA {name}').scalar()

    def test_a_file_is_created_only_for_its_owner(self):
        with open_store(self.url) as store:
            self.assertEqual((), store.clusters.list())
            self.assertIsNotNone(store.leases.claim('s', 'me', 30))
            for path in self.path.parent.iterdir():
                self.assertEqual(0o600, self.mode(path), path)
        self.assertEqual(0o700, self.mode(self.path.parent))
        self.assertEqual([self.path], list(self.path.parent.iterdir()))

    def test_committed_data_is_on_the_disk(self):
        # 2 is FULL.
        self.assertEqual(('wal', 2), (self.pragma('journal_mode'), self.pragma('synchronous')))
        self.assertEqual(1, self.pragma('foreign_keys'))

    def test_concurrent_creators_of_the_file_share_one(self):
        barrier, leases, errors = threading.Barrier(4), [], []

        def use(owner):
            barrier.wait()
            try:
                with open_store(self.url) as store:
                    leases.append(store.leases.claim('s', owner, 30))
            except StoreError as exc:
                errors.append(exc)

        threads = [threading.Thread(target=use, args=[f'o{i}']) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], errors)
        self.assertEqual(1, len([one for one in leases if one]))
        self.assertEqual([self.path], list(self.path.parent.iterdir()))

    def test_the_keys_are_beside_the_file_or_as_configured(self):
        database = open_database(self.url, clock=SYSTEM_CLOCK)
        self.addCleanup(database.close)
        self.assertEqual(self.path.with_suffix('.keys'), key_file(database, None).path)
        self.assertEqual(self.folder / 'k', key_file(database, self.folder / 'k').path)
        server = Database('postgresql://kiln@db.invalid/kiln', clock=SYSTEM_CLOCK)
        self.addCleanup(server.close)
        self.assertEqual(SERVER_KEYS, key_file(server, None).path)

    def test_the_keys_can_be_a_credential_of_the_service(self):
        path = credentials.given(self, kiln__keys='') / 'kiln.keys'
        server = Database('postgresql://kiln@db.invalid/kiln', clock=SYSTEM_CLOCK)
        self.addCleanup(server.close)
        file = open_database(self.url, clock=SYSTEM_CLOCK)
        self.addCleanup(file.close)
        for database in server, file:
            self.assertEqual(path, key_file(database, None).path)
            self.assertEqual(self.folder / 'k', key_file(database, self.folder / 'k').path)

    def test_a_place_that_cannot_be_written_is_named(self):
        (self.folder / 'new').write_text('')
        with self.assertRaisesRegex(StoreError, r'Cannot create the file .*option \[db\] url'):
            open_store(self.url)

    def test_an_invalid_database_file_is_named(self):
        self.path.parent.mkdir()
        self.path.write_text('This is a letter to my aunt. ' * 100)
        with self.assertRaisesRegex(StoreError, 'kiln.db: file is not a database'):
            open_store(self.url)

    def test_an_unreachable_server_is_named_and_the_error_is_retryable(self):
        for kind in ('postgresql', 'mariadb'):
            url = f'{kind}://kiln:hunter2@127.0.0.1:1/kiln'
            with self.subTest(kind), self.assertRaisesRegex(StoreError, '127.0.0.1') as caught:
                open_store(url)
            self.assertTrue(caught.exception.retryable)
            self.assertNotIn('hunter2', str(caught.exception))


class SilentServer(unittest.TestCase):
    def told(self, scheme):
        """Return what is reported of a server that closes each connection once it is reported."""
        listener = self.enterContext(socket.create_server(('127.0.0.1', 0)))
        port = listener.getsockname()[1]
        told, accepted = [], []

        def accept():
            while True:
                try:
                    accepted.append(listener.accept()[0])
                except OSError:
                    return

        def report(words):
            told.append(words)
            # Both ends see it; a client can begin again, without TLS.
            listener.shutdown(socket.SHUT_RDWR)
            for one in accepted:
                one.close()

        thread = threading.Thread(target=accept)
        thread.start()
        self.addCleanup(thread.join)
        url = f'{scheme}://me:secret@127.0.0.1:{port}/kiln'
        database = Database(url, clock=SYSTEM_CLOCK, report=report)
        self.addCleanup(database.close)
        database.silence.silent_s = database.silence.look_s = 0.05
        with self.assertRaises(StoreError) as caught, database.reading():
            self.fail('it is connected')
        self.assertIn(f'Cannot read the store at {database.name}: ', str(caught.exception))
        return told, database.name

    def test_a_server_that_does_not_answer_is_reported_before_the_connection_fails(self):
        for scheme in ('postgresql', 'mariadb'):
            with self.subTest(scheme):
                told, name = self.told(scheme)
                words = f'The store at {name} has not answered for over 0.05 s.'
                self.assertEqual(words, told[0])
                self.assertNotIn('secret', told[0])

    def test_a_server_that_refuses_at_once_is_not_called_silent(self):
        with socket.create_server(('127.0.0.1', 0)) as listener:
            port = listener.getsockname()[1]
        told = []
        database = Database(
            f'postgresql://127.0.0.1:{port}/kiln', clock=SYSTEM_CLOCK, report=told.append
        )
        self.addCleanup(database.close)
        with self.assertRaises(StoreError) as caught, database.reading():
            self.fail('it is connected')
        self.assertNotIn('?.', str(caught.exception))
        self.assertEqual([], told)


class Silence(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.told = queue.SimpleQueue()
        self.silence = ServerSilence('db.example', self.told.put)
        self.silence.silent_s = self.silence.look_s = 0.01
        self.addCleanup(self.silence.close)

    def test_a_transaction_that_waits_is_told_of_once_and_so_is_the_next_that_succeeds(self):
        with self.assertRaises(StoreError), self.silence.noted(), self.silence.noted():
            words = 'The store at db.example has not answered for over 0.01 s.'
            self.assertEqual(words, self.told.get(timeout=60))
            raise StoreError('it has broken')
        self.assertTrue(self.told.empty())
        for _ in range(2):
            with self.silence.noted():
                pass
        self.assertEqual('The store at db.example answers again.', self.told.get(timeout=60))
        self.assertTrue(self.told.empty())

    def test_after_the_close_nothing_is_told(self):
        self.silence.close()
        with self.silence.noted():
            self.assertRaises(queue.Empty, self.told.get, timeout=0.1)


class Urls(unittest.TestCase):
    def test_each_database_has_its_package(self):
        for given, driver in (
            ('sqlite:////var/kiln.db', 'sqlite'),
            ('postgresql://u@h/d', 'postgresql+psycopg'),
            ('postgres://u@h/d', 'postgresql+psycopg'),
            ('mariadb://u@h/d', 'mariadb+pymysql'),
            ('mysql://u@h/d', 'mariadb+pymysql'),
        ):
            with self.subTest(given):
                self.assertEqual(driver, parse_url(given).drivername)

    def test_an_invalid_url_is_refused_without_quoting_its_password(self):
        for given in ('', 'hunter2', 'oracle://u:hunter2@h/d', 'sqlite://', 'sqlite:///:memory:',
                      'sqlite://var/kiln.db', 'postgresql://u:hunter2@h',
                      'mariadb://u:hunter2@h:port/d'):  # fmt: skip
            with self.subTest(given), self.assertRaisesRegex(StoreError, 'store') as caught:
                parse_url(given)
            self.assertNotIn('hunter2', str(caught.exception))


class Trouble(StoreCase):
    def locked(self):
        other = sqlite3.connect(self.url.removeprefix('sqlite:///'), isolation_level=None)
        self.addCleanup(other.close)
        other.execute('BEGIN IMMEDIATE')
        return other

    def test_a_write_lock_timeout_is_retryable(self):
        impatient = self.open(lock_timeout_s=0.05)
        other = self.locked()
        with self.assertRaisesRegex(StoreError, 'database is locked') as caught:
            impatient.leases.claim('s', 'me', 30)
        self.assertTrue(caught.exception.retryable)
        # Readers do not wait.
        self.assertEqual((), impatient.clusters.list())
        other.execute('ROLLBACK')
        self.assertIsNotNone(impatient.leases.claim('s', 'me', 30))

    def test_nested_writing_is_an_error_and_not_a_deadlock(self):
        impatient = self.open(lock_timeout_s=0.05)
        self.create()
        lease = self.claim()
        with impatient.writing(lease) as batch:
            batch.accept(samples.node(), 'server-1')
            with self.assertRaisesRegex(StoreError, 'another thread') as caught:
                impatient.events.add(samples.event())
            self.assertTrue(caught.exception.retryable)
        impatient.events.add(samples.event())

    def test_a_damaged_file_is_told_from_one_that_cannot_be_reached(self):
        path = self.store._database.path
        self.store.close()
        for content, kind in ((os.urandom(8192), StoreBroken), (None, StoreError)):
            path.unlink()
            path.write_bytes(content) if content else path.mkdir()
            with self.assertRaises(StoreError) as caught:
                self.store.leases.get('s')
            self.assertIs(kind, type(caught.exception))

    def test_a_schema_that_cannot_be_decoded_is_reported_as_damage(self):
        path = self.store._database.path
        self.store.close()
        connection = sqlite3.connect(path)
        connection.execute('PRAGMA wal_checkpoint(TRUNCATE)')
        connection.close()
        # SQLite quotes the word that it does not know.
        path.write_bytes(path.read_bytes().replace(b'CREATE INDEX', b'CR\xc5ATE INDEX'))
        with self.assertRaisesRegex(StoreBroken, 'not text'):
            self.store.leases.get('s')

    def test_a_broken_store_is_reported(self):
        database = Database(self.url, clock=VirtualClock())
        self.addCleanup(database.close)
        with database.writing() as connection:
            connection.execute(sa.text('DROP TABLE lease'))
        with self.assertRaisesRegex(StoreBroken, 'no such table: lease') as caught:
            self.store.leases.claim('s', 'me', 30)
        self.assertFalse(caught.exception.retryable)
