"""Requests of a poll to the backend, and their number."""

import unittest

from kiln.exceptions import AmphoraComputeError
from kiln.models import State
from kiln.testing.clock import VirtualClock
from kiln.wrappers.watcher.cursors import BuildCursor
from kiln.wrappers.watcher.poll import FEW, FULL_S, TROUBLE_S, Poll
from kiln.wrappers.watcher.waiter import GoneWaiter
from kiln.wrappers.watcher.waiter_table import WaiterTable
from tests.unit.wrappers.watcher.cursor_driver import CursorDriver, PlainDriver
from tests.unit.wrappers.watcher.watching import Nobody


class InquiryCase(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.table = WaiterTable()
        self.waiters = []

    def use(self, driver):
        self.driver = driver
        self.poll = Poll(driver, full_sweep_s=300.0)

    def wait_for(self, count, *, exist=True, since=None):
        for _ in range(count):
            amphora_id = f'a{len(self.waiters)}'
            if exist:
                self.driver.put(amphora_id)
            self.waiters.append(GoneWaiter(Nobody(), 'east', amphora_id))
            self.waiters[-1].since = since
            self.table.add(self.waiters[-1])

    def cursor_now(self, *, certain=True):
        """Return the cursor for a build that is sent at once."""
        return BuildCursor(self.poll.present(), self.clock.monotonic(), certain)

    def look(self, *, all_seen=True):
        """Return the calls of one poll, and the ids reported as gone."""
        self.driver.calls.clear()
        self.table.admit()
        gone = []
        for answer in self.poll.answers(self.table):
            for status in answer.statuses:
                for waiter in self.table.record_status(status, 0.0):
                    waiter.informed = True
            gone += answer.gone
        if all_seen:
            self.assertEqual((), tuple(set(self.table.unseen()) - set(gone)))
        return self.driver.calls, gone


class InquiryTest(InquiryCase):
    def test_a_few_amphorae_are_polled_by_id(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(FEW)
        for _ in range(3):
            self.assertEqual([('statuses', FEW)], self.look()[0])

    def test_many_amphorae_are_served_by_one_full_answer_and_then_by_changes(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(1000)
        for _ in range(3):
            self.assertEqual([('changes', 0)], self.look()[0])

    def test_new_amphorae_without_a_change_are_polled_by_id_together_and_once(self):
        self.use(CursorDriver(self.clock))
        for number in range(100, 105):
            self.driver.put(f'a{number}')
        self.wait_for(100)
        self.look()
        self.wait_for(5, exist=False)
        self.assertEqual([('changes', 0), ('statuses', 5)], self.look()[0])
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_new_amphorae_with_a_change_are_not_polled_by_id(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(100)
        self.look()
        self.wait_for(5)
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_a_useful_cursor_also_serves_a_few_amphorae(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(100)
        self.look()
        self.look()
        for waiter in self.waiters[1:]:
            self.table.drop(waiter)
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_a_cursor_with_a_complete_answer_does_not_serve_a_few_amphorae(self):
        self.use(CursorDriver(self.clock))
        self.driver.always_complete = True
        self.wait_for(100)
        self.look()
        for waiter in self.waiters[1:]:
            self.table.drop(waiter)
        self.assertEqual([('statuses', 1)], self.look()[0])

    def test_an_amphora_missing_from_a_full_answer_is_polled_by_id_before_it_is_gone(self):
        self.use(CursorDriver(self.clock))
        self.driver.hidden = {'a7'}
        self.wait_for(100)
        self.wait_for(1, exist=False)
        calls, gone = self.look()
        self.assertEqual([('changes', 0), ('statuses', 2)], calls)
        self.assertEqual(['a100'], gone)

    def test_an_amphora_missing_from_the_changes_is_not_gone(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(100)
        self.look()
        self.assertEqual(([('changes', 0)], []), self.look())

    def test_a_driver_without_cursors_is_polled_by_id_after_one_try(self):
        self.use(PlainDriver(self.clock))
        self.wait_for(100)
        self.assertEqual([('changes', 0)], self.look()[0])
        self.assertEqual([('statuses', 100)], self.look()[0])
        self.assertEqual([('statuses', 100)], self.look()[0])

    def test_a_driver_without_cursors_is_tried_again_after_a_while(self):
        self.use(PlainDriver(self.clock))
        self.wait_for(100)
        self.look()
        self.clock.advance(299.0)
        self.assertEqual([('statuses', 100)], self.look()[0])
        self.clock.advance(1.0)
        self.assertEqual([('changes', 0)], self.look()[0])
        self.assertEqual([('statuses', 100)], self.look()[0])

    def test_all_amphorae_are_periodically_polled_by_id(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(100)
        self.look()
        self.clock.advance(300.0)
        self.assertEqual([('statuses', 100)], self.look()[0])
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_an_unprocessed_answer_is_returned_again(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(100)
        self.look()
        self.driver.put('a3', State.ACTIVE)
        next(self.poll.answers(self.table))
        answer = next(self.poll.answers(self.table))
        self.assertEqual(['a3'], [status.amphora_id for status in answer.statuses])


class CursorAtHandTest(InquiryCase):
    def setUp(self):
        super().setUp()
        self.use(CursorDriver(self.clock))
        self.driver.cursor_at_hand = True
        for number in range(1000):
            self.driver.put(f'a{number}')

    def rows(self):
        """Return the number of statuses in the changes of one poll."""
        self.driver.calls.clear()
        self.table.admit()
        answer, *_ = self.poll.answers(self.table)
        return len(answer.statuses)

    def test_amphorae_without_a_change_are_polled_by_id_once_and_then_by_changes(self):
        for count in (4, 2 * FEW):
            self.wait_for(count, exist=False)
            self.assertEqual([('changes', 0), ('statuses', count)], self.look()[0])
            self.assertEqual([('changes', 0)], self.look()[0])

    def test_amphorae_without_a_waiter_are_not_reported(self):
        self.wait_for(4, exist=False)
        self.assertEqual(0, self.rows())

    def test_an_old_cursor_is_skipped_if_all_amphorae_are_new(self):
        self.wait_for(1)
        self.look()
        self.table.drop(self.waiters[0])
        for number in range(500):
            self.driver.put(f'a{number}')
        self.wait_for(1, exist=False)
        self.assertEqual(0, self.rows())

    def test_an_old_cursor_is_kept_while_a_waiter_depends_on_it(self):
        self.wait_for(1)
        self.look()
        self.driver.put('a0', State.ACTIVE)
        self.wait_for(1, exist=False)
        self.assertEqual(1, self.rows())

    def test_amphorae_made_after_the_cursor_are_not_polled_by_id(self):
        for crowd in ((0, 4), (4, 8)):
            self.clock.advance(60.0)
            since = self.cursor_now()
            for number in range(*crowd):
                self.driver.put(f'a{number}')
            self.clock.advance(1.0)
            self.wait_for(4, exist=False, since=since)
            self.assertEqual([('changes', 0)], self.look()[0])
            for waiter in self.waiters:
                self.table.drop(waiter)

    def test_the_cursor_of_the_first_of_several_builds_counts(self):
        cursors = []
        for number in range(4):
            cursors.append(self.cursor_now())
            self.driver.put(f'a{number}')
            self.clock.advance(1.0)
        for since in reversed(cursors):
            self.wait_for(1, exist=False, since=since)
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_an_amphora_of_unknown_age_is_polled_by_id_beside_new_ones(self):
        since = self.cursor_now()
        self.driver.put('a0')
        self.clock.advance(1.0)
        self.wait_for(1, exist=False, since=since)
        self.wait_for(1, exist=False)
        self.assertEqual([('changes', 0), ('statuses', 2)], self.look()[0])

    def test_a_build_during_other_polls_needs_no_poll_by_id(self):
        self.wait_for(1, exist=False)
        self.look()
        self.clock.advance(1.0)
        since = self.cursor_now()
        self.wait_for(1, exist=False, since=since)
        # Its backend has accepted it, and reports it a moment later.
        self.assertEqual([('changes', 0)], self.look(all_seen=False)[0])
        self.driver.put('a1')
        self.clock.advance(1.0)
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_an_amphora_that_might_exist_already_is_reported_or_polled_by_id(self):
        since = self.cursor_now(certain=False)
        self.driver.put('a0')
        self.clock.advance(1.0)
        self.wait_for(2, exist=False, since=since)
        self.assertEqual([('changes', 0), ('statuses', 1)], self.look()[0])

    def test_an_amphora_made_earlier_elsewhere_is_polled_with_the_second_poll(self):
        self.clock.advance(1.0)
        since = self.cursor_now()
        self.clock.advance(1.0)
        self.wait_for(1, exist=False, since=since)
        self.assertEqual([('changes', 0)], self.look(all_seen=False)[0])
        self.clock.advance(1.0)
        self.assertEqual([('changes', 0), ('statuses', 1)], self.look()[0])

    def test_a_failed_poll_starts_from_the_same_cursor_again(self):
        since = self.cursor_now()
        self.driver.put('a0')
        self.clock.advance(1.0)
        self.wait_for(1, exist=False, since=since)
        self.driver.on_call = lambda hook: 1 / 0
        with self.assertRaises(AmphoraComputeError):
            self.look()
        self.driver.on_call = lambda hook: None
        self.clock.advance(1.0)
        self.assertEqual([('changes', 0)], self.look()[0])


class InShortTest(InquiryCase):
    def setUp(self):
        super().setUp()
        self.use(CursorDriver(self.clock))
        self.driver.cursor_at_hand = self.driver.tells_in_short = True
        self.build(4)

    def build(self, count, *, brief=True):
        """Make that many amphorae, and watch them as builds are watched."""
        since = self.cursor_now()
        self.clock.advance(1.0)
        new = len(self.waiters)
        self.wait_for(count, since=since)
        for waiter in self.waiters[new:]:
            waiter.brief = brief

    def look(self):
        calls, gone = super().look(all_seen=False)
        return calls, gone

    def reported(self):
        """Return the result of one poll for the watched amphorae."""
        self.table.admit()
        answers = list(self.poll.answers(self.table))
        return {one.amphora_id: one.state for answer in answers for one in answer.statuses}

    def test_waiters_for_builds_are_served_by_active_ids(self):
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])
        self.driver.put('a2', State.ACTIVE)
        self.assertEqual({'a2': State.ACTIVE}, self.reported())

    def test_failed_builds_are_periodically_polled_with_their_reason(self):
        self.driver.put('a1', State.ERROR)
        self.assertEqual({}, self.reported())
        self.clock.advance(TROUBLE_S)
        self.driver.put('a2', State.ACTIVE)
        self.driver.calls.clear()
        self.assertEqual({'a2': State.ACTIVE, 'a1': State.ERROR}, self.reported())
        calls = [('reached', State.ACTIVE), ('reached', State.ERROR), ('statuses', 1)]
        self.assertEqual(calls, self.driver.calls)
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])

    def test_after_a_while_a_full_poll_reports_everything(self):
        self.look()
        self.driver.remove('a3')
        self.clock.advance(FULL_S)
        self.assertEqual(([('changes', 0)], ['a3']), self.look())
        self.table.gone('a3')
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])

    def test_a_poll_of_ids_is_not_a_full_poll(self):
        self.look()
        self.assertTrue(self.poll.brief)
        self.clock.advance(FULL_S)
        self.look()
        self.assertFalse(self.poll.brief)

    def test_a_waiter_for_each_change_requires_full_polls(self):
        self.look()
        self.build(1, brief=False)
        self.assertEqual([('changes', 0)], self.look()[0])
        self.table.drop(self.waiters[-1])
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])

    def test_a_driver_without_active_ids_now_is_polled_for_changes(self):
        self.driver.tells_in_short = False
        self.assertEqual([('changes', 0)], self.look()[0])
        self.assertFalse(self.poll.brief)

    def test_an_amphora_that_might_exist_already_is_polled_first(self):
        self.look()
        self.driver.put('a4')
        self.clock.advance(1.0)
        since = self.cursor_now(certain=False)
        self.clock.advance(1.0)
        self.wait_for(1, exist=False, since=since)
        self.waiters[-1].brief = True
        self.assertEqual([('changes', 0)], self.look()[0])
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])

    def test_known_builds_in_progress_are_reported_by_id_when_active(self):
        self.driver.put('a1', State.PENDING)
        self.driver.put('a2', State.BUILDING)
        self.clock.advance(FULL_S)
        self.assertEqual([('changes', 0)], self.look()[0])
        self.driver.put('a1', State.ACTIVE)
        self.driver.put('a2', State.ACTIVE)
        self.driver.calls.clear()
        self.assertEqual({'a1': State.ACTIVE, 'a2': State.ACTIVE}, self.reported())
        self.assertEqual([('reached', State.ACTIVE)], self.driver.calls)

    def test_a_known_build_that_fails_is_reported_in_time(self):
        self.clock.advance(FULL_S)
        self.assertEqual([('changes', 0)], self.look()[0])
        self.driver.put('a1', State.ERROR)
        reported = {}
        for _ in range(int(TROUBLE_S)):
            self.clock.advance(1.0)
            reported |= self.reported()
        self.assertEqual({'a1': State.ERROR}, reported)

    def test_the_cursor_advances_but_still_reports_a_slow_build(self):
        slow = self.cursor_now()
        for number in range(3):
            self.driver.put(f'a{number}', State.ACTIVE)
        self.clock.advance(TROUBLE_S)
        self.reported()
        for waiter in self.waiters[:3]:
            self.table.drop(waiter)
        self.build(1)
        self.table.drop(self.waiters[3])
        self.look()
        moved_on = self.driver.asked_since
        self.assertGreater(moved_on, 4)
        self.wait_for(1, since=slow)
        self.waiters[-1].brief = True
        self.driver.put('a5', State.ACTIVE)
        self.driver.calls.clear()
        self.assertEqual({'a5': State.ACTIVE}, self.reported())
        self.assertEqual([('reached', State.ACTIVE)], self.driver.calls)
        self.assertLess(self.driver.asked_since, moved_on)

    def test_an_amphora_with_another_task_requires_a_full_poll(self):
        self.driver.put('a1', State.UNKNOWN)
        self.clock.advance(FULL_S)
        self.look()
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])
        self.driver.put('a1', State.ACTIVE)
        self.driver.put('a2', State.ACTIVE)
        self.driver.calls.clear()
        self.assertEqual({'a1': State.ACTIVE, 'a2': State.ACTIVE}, self.reported())
        self.assertEqual([('reached', State.ACTIVE), ('changes', 0)], self.driver.calls)

    def test_amphorae_without_a_waiter_are_left_out(self):
        self.driver.put('a9', State.ACTIVE)
        self.assertEqual({}, self.reported())
