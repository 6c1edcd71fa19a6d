"""Table of waiters, with the last status of each amphora."""

import unittest

from kiln.models import State
from kiln.wrappers.watcher import waiter_table
from kiln.wrappers.watcher.waiter import GoneWaiter
from kiln.wrappers.watcher.waiter_table import WaiterTable, missing
from tests.unit.wrappers.watcher.cursor_driver import status
from tests.unit.wrappers.watcher.watching import Nobody


class WatchTableTest(unittest.TestCase):
    def setUp(self):
        self.table = WaiterTable()

    def add(self, amphora_id='a', *, admit=True):
        waiter = GoneWaiter(Nobody(), 'east', amphora_id)
        self.table.add(waiter)
        if admit:
            self.table.admit()
        return waiter

    def test_all_are_unseen_until_a_status_arrives(self):
        self.add('a')
        self.add('b')
        self.assertTrue(self.table.all_unseen())
        self.table.record_status(status('a'), 1.0)
        self.assertFalse(self.table.all_unseen())

    def test_a_waiter_is_not_notified_before_it_is_admitted(self):
        early, late = self.add(), self.add(admit=False)
        self.assertEqual((early,), self.table.record_status(status(), 1.0))
        self.table.admit()
        early.informed = True
        self.assertEqual((late,), self.table.record_status(status(), 2.0))

    def test_a_change_notifies_all_waiters_and_a_repetition_none(self):
        waiters = (self.add(), self.add())
        for change in (
            status(),
            status(task_state='spawning'),
            status(state=State.ACTIVE),
            status(state=State.ERROR, fault='No valid host.'),
            status(state=State.ERROR, fault='No valid host.', stale=True),
        ):
            self.assertEqual(waiters, self.table.record_status(change, 1.0))
            self.assertEqual((), self.table.record_status(change, 2.0))

    def test_an_unwatched_amphora_is_not_remembered(self):
        self.assertEqual((), self.table.record_status(status(), 1.0))
        self.assertIsNone(self.table.latest('a'))

    def test_new_amphorae_are_unseen_until_seen_gone_or_dropped(self):
        self.add('a')
        self.add('b')
        dropped = self.add('c')
        self.assertEqual({'a', 'b', 'c'}, set(self.table.unseen()))
        self.table.record_status(status('a'), 1.0)
        self.table.gone('b')
        self.table.drop(dropped)
        self.assertEqual((), self.table.unseen())
        self.assertEqual(('a', 'b'), self.table.ids())

    def test_dropping_a_new_waiter_leaves_the_others(self):
        admitted, arrival = self.add(), self.add(admit=False)
        self.table.drop(arrival)
        self.assertEqual([admitted], self.table.waiters())
        self.table.drop(admitted)
        self.assertEqual(0, len(self.table))

    def test_an_amphora_stays_while_it_has_a_waiter(self):
        first, second = self.add(), self.add()
        self.table.drop(first)
        self.assertEqual(('a',), self.table.ids())
        self.assertEqual((second,), self.table.record_status(status(), 1.0))

    def test_past_amphorae_are_limited_and_the_oldest_is_dropped_first(self):
        for number in range(waiter_table.REMEMBERED + 2):
            waiter = self.add(f'a{number}')
            self.table.record_status(status(f'a{number}'), 1.0)
            self.table.drop(waiter)
        self.assertIsNone(self.table.latest('a1'))
        self.assertIsNotNone(self.table.latest('a2'))

    def test_the_remembered_status_is_updated_and_ends_with_the_amphora(self):
        waiter = self.add()
        self.table.record_status(status(), 1.0)
        self.table.drop(waiter)
        self.table.record_status(status(state=State.ACTIVE), 2.0)
        self.assertIs(State.ACTIVE, self.table.latest('a').status.state)
        self.assertEqual((), self.table.gone('a'))
        self.assertIsNone(self.table.latest('a'))

    def test_a_remembered_status_is_available_later_but_counts_as_unseen(self):
        waiter = self.add()
        self.table.record_status(status(observed_at=50.0), 1.0)
        self.table.drop(waiter)
        self.add()
        self.table.record_full_poll(9.0, 99.0)
        seen_status = self.table.latest('a')
        self.assertEqual((1.0, 50.0), (seen_status.at, seen_status.status.observed_at))
        self.assertEqual(('a',), self.table.unseen())

    def test_a_poll_without_changes_refreshes_all_known_statuses(self):
        self.add()
        self.table.record_status(status(observed_at=50.0), 1.0)
        self.table.record_full_poll(9.0, 99.0)
        seen_status = self.table.latest('a')
        self.assertEqual((9.0, 99.0), (seen_status.at, seen_status.status.observed_at))

    def test_an_unseen_or_gone_amphora_has_no_status(self):
        self.add()
        self.table.record_full_poll(9.0, 99.0)
        self.assertIsNone(self.table.latest('a'))
        self.table.record_status(status(), 10.0)
        self.table.gone('a')
        self.assertIsNone(self.table.latest('a'))

    def test_missing_keeps_the_order_of_the_poll(self):
        self.assertEqual(('c', 'a'), missing(['c', 'b', 'a'], iter(['b', 'd'])))
