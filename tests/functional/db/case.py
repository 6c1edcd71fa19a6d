"""Base of store tests on a real database server."""

import atexit
import functools
import threading

import sqlalchemy as sa

from kiln.clock import SYSTEM_CLOCK
from kiln.clusters.exceptions import LeaseLost, StoreError
from kiln.db.database import Database, parse_url
from kiln.db.keys import KeyFile
from kiln.db.tables.schema import REVISION, metadata
from kiln.db.tables.upgrade import upgrade
from kiln.db.upkeep import revision_of
from tests.unit.db import samples, test_batch, test_leases, test_processes, test_upkeep
from tests.unit.db.case import ClusterCase, take_over
from tests.unit.db.records import (
    test_census,
    test_clusters,
    test_events,
    test_operations,
    test_receipts,
    test_room,
    test_secrets,
)

SUITES = (
    test_batch.Acceptance, test_batch.Batches, test_batch.Burial, test_batch.Doom,
    test_census.CensusOfAStore,
    test_clusters.Changing, test_clusters.Creating, test_clusters.Templates,
    test_events.Events, test_leases.Fences, test_leases.Leases, test_operations.NodesAtALook,
    test_operations.Operations, test_operations.Work, test_processes.Processes,
    test_receipts.Receipts, test_room.RoomForNodes, test_secrets.Bound, test_secrets.Secrets,
    test_upkeep.Tables, test_upkeep.Upkeep,
)  # fmt: skip


@functools.cache
def opened(url):
    """Return the open test database; opening takes longer than emptying its tables."""
    database = Database(url, clock=SYSTEM_CLOCK)
    # Before its server ends.
    atexit.register(database.close)
    return database


def emptied(url):
    """Return the open test database with empty tables of this revision."""
    database = opened(url)
    if revision_of(database) != REVISION:
        with database.writing() as connection:
            metadata.drop_all(connection)
            connection.execute(sa.text('DROP TABLE IF EXISTS alembic_version'))
        upgrade(database)
    with database.writing() as connection:
        for table in reversed(metadata.sorted_tables):
            if table.name != 'counter':
                connection.execute(sa.delete(table))
        connection.execute(sa.text('UPDATE counter SET last = 0'))
    return database


class OnServer:
    """Makes a suite use a server, with empty tables for each test."""

    server = None

    def make_url(self):
        emptied(self.server.url)
        # No process creates the keys of a server by itself.
        KeyFile(self.folder / 'kiln.keys').advance()
        return self.server.url

    def database_url(self):
        return parse_url(self.url)

    def pass_time(self, seconds):
        super().pass_time(seconds)
        # The clock of a server cannot be set, so the leases are changed instead.
        engine = sa.create_engine(self.database_url())
        with engine.begin() as connection:
            connection.execute(
                sa.text('UPDATE lease SET expires = expires - :s WHERE expires > 0'),
                {'s': seconds},
            )
        engine.dispose()

    def check_integrity(self):
        """Do nothing: database servers have no such check."""


class Locks(OnServer, ClusterCase):
    """Tests of concurrency on a server; SQLite has a single lock."""

    def started(self, work):
        results = []

        def run():
            try:
                results.append(work())
            except (LeaseLost, StoreError) as exc:
                results.append(exc)

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        return thread, results

    def test_a_takeover_waits_for_a_running_commit_and_sees_it(self):
        other = self.open()
        with self.store.writing(self.lease) as batch:
            batch.node(samples.node())
            batch.accept(samples.node(), 'server-1')
            thread, results = self.started(lambda: take_over(other, 'c-web', 'you'))
            thread.join(0.3)
            self.assertEqual([], results)
        thread.join()
        self.assertEqual(2, results[0].epoch)
        self.assertEqual('server-1', other.nodes.get('c-web', 'n-1').compute_id)

    def test_threads_of_one_owner_write_at_the_same_time(self):
        with self.store.writing(self.lease) as batch:
            batch.node(samples.node('n-1'))
            batch.accept(samples.node('n-1'), 'server-1')
            thread, results = self.started(
                lambda: self.write(self.lease, node=samples.node('n-2'))
            )
            thread.join()
            self.assertEqual([None], results)

    def test_a_change_by_a_caller_waits_for_the_engine_without_deadlock(self):
        self.write(self.lease, node=samples.node())
        with self.store.writing(self.lease) as batch:
            batch.accept(samples.node(), 'server-1')
            thread, results = self.started(
                lambda: self.store.clusters.change(
                    'c-web', samples.spec(), generation=1, doomed={'n-1': 'asked for'},
                    operation=samples.operation('op-2'), supersede=True,
                )
            )  # fmt: skip
            thread.join(0.3)
            self.assertEqual([], results)
            batch.cluster(self.web)
            batch.node(samples.node('n-2'))
        thread.join()
        self.assertEqual(2, results[0].generation)
        self.assertEqual('asked for', self.store.nodes.get('c-web', 'n-1').doomed)

    def test_a_lock_timeout_is_retryable(self):
        impatient = self.open(lock_timeout_s=1.0)
        with self.store.writing(self.lease) as batch:
            batch.accept(samples.node(), 'server-1')
            with self.assertRaises(StoreError) as caught:
                take_over(impatient, 'c-web', 'you')
            self.assertTrue(caught.exception.retryable, caught.exception)

    def test_a_session_idle_inside_a_change_is_ended(self):
        sleepy = self.open(lock_timeout_s=1.0)
        other = self.open()
        with self.assertRaises(StoreError) as caught, sleepy.writing(self.lease) as batch:
            batch.accept(samples.node(), 'server-1')
            # Returns only after the server has ended the other session.
            self.assertEqual(2, take_over(other, 'c-web', 'you').epoch)
            batch.node(samples.node())
        self.assertTrue(caught.exception.retryable, caught.exception)
        self.assertEqual((), other.nodes.of('c-web'))

    def test_a_second_change_of_the_same_purpose_waits(self):
        one, two = (Database(self.url, clock=SYSTEM_CLOCK) for _ in range(2))
        self.addCleanup(one.close)
        self.addCleanup(two.close)

        def enter():
            with two.writing() as connection, two.alone(connection, 'upgrade'):
                return 'entered'

        with one.writing() as connection, one.alone(connection, 'upgrade'):
            thread, results = self.started(enter)
            thread.join(0.3)
            self.assertEqual([], results)
        thread.join()
        self.assertEqual(['entered'], results)


def suites_on(module):
    """Return all suites for a module whose server is ``server``."""
    found = {}
    for suite in SUITES:
        found[suite.__name__] = type(suite.__name__, (OnServer, suite), {'__module__': module})
    return found
