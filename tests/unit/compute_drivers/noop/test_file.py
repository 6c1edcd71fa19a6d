"""Simulated cloud in a file that several processes open."""

import contextlib
import pathlib
import sqlite3
import tempfile
import unittest

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Action, Fault
from kiln.compute_drivers.noop.simulation.catalogue import Catalogue
from kiln.compute_drivers.noop.simulation.groups import Groups
from kiln.compute_drivers.noop.simulation.machines import Machines
from kiln.compute_drivers.noop.simulation.store import Store
from kiln.exceptions import (
    BuildConflict,
    ConfigurationError,
    InstanceNotFoundError,
    ServiceUnavailable,
)
from kiln.models import State
from kiln.testing.clock import VirtualClock


class FileTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = folder / 'cloud.db'
        self.clock = VirtualClock()

    def open(self, **offer):
        cloud = NoopCloud(self.path, clock=self.clock, **offer)
        self.addCleanup(cloud.close)
        return NoopDriver(cloud=cloud)

    def test_changes_of_one_process_are_seen_by_the_other(self):
        one, two = self.open(build_s=10, delete_s=5), self.open()
        amphora_id = one.build(name='x', build_key='k', port_ids=['p'])
        self.assertEqual(two.build(name='x', build_key='k'), amphora_id)
        self.assertIs(two.status(amphora_id).state, State.BUILDING)
        self.assertRaises(BuildConflict, two.build, port_ids=['p'])
        cursor = two.changes().cursor
        self.clock.advance(10)
        (change,) = two.changes(cursor).statuses
        self.assertIs(change.state, State.ACTIVE)
        one.delete(amphora_id)
        self.clock.advance(5)
        self.assertRaises(InstanceNotFoundError, two.status, amphora_id)
        self.assertEqual(two.changes(cursor).gone, (amphora_id,))

    def test_a_clock_that_was_set_back_makes_no_machine_wait(self):
        one, two = self.open(build_s=10, delete_s=5), self.open()
        amphora_id = one.build(name='x', build_key='k')
        self.clock.advance(4)
        self.clock.step(-86400)
        self.assertIs(State.BUILDING, two.status(amphora_id).state)
        self.clock.advance(10)
        self.assertIs(State.ACTIVE, two.status(amphora_id).state)
        one.delete(amphora_id)
        self.clock.step(-3600)
        # The next look is after the jump, as long as the deletion takes.
        self.clock.advance(5)
        self.assertIs(State.DELETING, two.status(amphora_id).state)
        self.clock.advance(5)
        self.assertRaises(InstanceNotFoundError, two.status, amphora_id)

    def test_a_clock_that_was_set_back_makes_no_late_effect_wait(self):
        fault = Fault(call='build', action=Action.VANISH, seconds=10)
        driver = self.open(faults=[fault])
        amphora_id = driver.build(name='x', build_key='k')
        self.clock.step(-86400)
        self.clock.advance(10)
        self.assertRaises(InstanceNotFoundError, driver.status, amphora_id)

    def test_a_clock_that_was_set_back_shows_a_machine_to_slow_lists(self):
        driver = self.open(faults=[Fault(call='list', action=Action.STALE_LIST, seconds=10)])
        driver.build(name='x', build_key='k')
        self.clock.step(-86400)
        self.assertEqual([], list(driver.list_amphorae()))
        self.clock.advance(10)
        self.assertEqual(1, len(list(driver.list_amphorae())))

    def test_a_cloud_of_an_earlier_version_is_used(self):
        self.open().build(build_key='k')
        with contextlib.closing(sqlite3.connect(self.path)) as other:
            other.execute('DROP TABLE clock')
        self.open().build(build_key='l')

    def test_a_call_ends_by_its_deadline_while_another_process_keeps_the_file_locked(self):
        driver = self.open()
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as other:
            other.execute('BEGIN EXCLUSIVE')
            with self.assertRaisesRegex(ServiceUnavailable, 'locked') as caught:
                driver.build(build_key='k', timeout=0.001)
            self.assertEqual('k', caught.exception.build_key)
        driver.build(build_key='k')

    def test_ids_are_not_reused_after_a_restart(self):
        one = self.open()
        old = one.build()
        one.delete(old)
        one.close()
        self.assertNotEqual(self.open().build(), old)

    def test_a_refused_build_is_undone_in_the_file_too(self):
        one = self.open()
        one.build(port_ids=['p'])
        self.assertRaises(BuildConflict, one.build, port_ids=['q', 'p'])
        self.assertEqual(self.open().cloud.count(), 1)
        self.open().build(port_ids=['q'])

    def test_a_closed_cloud_raises_an_error(self):
        one = self.open()
        one.close()
        for call in (one.build, one.check):
            with self.assertRaises(ServiceUnavailable) as caught:
                call()
            self.assertIn(str(self.path), str(caught.exception))

    def test_a_file_without_a_cloud_is_refused(self):
        self.path.write_text('not a database at all, but long enough to be taken for one' * 50)
        with self.assertRaises(ConfigurationError) as caught:
            self.open()
        self.assertIn(str(self.path), str(caught.exception))

    def test_a_cloud_of_another_version_is_refused(self):
        db = sqlite3.connect(self.path)
        db.execute('PRAGMA user_version = 99')
        db.close()
        with self.assertRaises(ConfigurationError) as caught:
            self.open()
        self.assertIn('99', str(caught.exception))

    def test_a_broken_file_is_an_outage_and_not_an_empty_cloud(self):
        one = self.open()
        one.build()
        db = sqlite3.connect(self.path)
        db.execute('DROP TABLE machines')
        db.close()
        self.assertRaises(ServiceUnavailable, one.build)
        self.assertRaises(ServiceUnavailable, lambda: list(one.list_amphorae()))


class TombstoneTest(unittest.TestCase):
    def test_a_cursor_older_than_the_oldest_tombstone_returns_everything(self):
        store, catalogue = (
            Store(None, None, time=VirtualClock().time, tombstones=1000),
            Catalogue(),
        )
        machines = Machines(store, catalogue, Groups(store), VirtualClock())

        def changes(since=''):
            return machines.changes(0, 'kiln', since, None)

        cursor = changes().cursor
        with store.write(0) as db:
            # One more than are kept, each with its own number.
            db.execute(
                'WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1001)'
                " INSERT INTO machines SELECT n, 'kiln', n, n, 'vm', NULL, NULL, 'az1', 'h', NULL,"
                " '{}', '{}', 0, 1, 'active', NULL, NULL, NULL, NULL, NULL, n FROM n"
            )
            store.next_numbers(db, 1001)
        middle = changes().cursor
        with store.write(0) as db:
            store.next_numbers(db)
            db.execute('DELETE FROM machines WHERE number <= 500')
            store.next_numbers(db)
            db.execute('DELETE FROM machines')
        self.assertEqual(machines.count(0), 0)
        self.assertTrue(changes(cursor).complete)
        self.assertTrue(changes(middle).complete)
        self.assertFalse(changes(changes().cursor).complete)
