"""What a backend is asked, and how often."""

import unittest

from kiln.exceptions import AmphoraComputeError
from kiln.models import State
from kiln.testing.clock import VirtualClock
from kiln.wrappers.active_poll import FULL_S, TROUBLE_S
from kiln.wrappers.cursors import BuildCursor
from kiln.wrappers.poll import FEW, Poll
from kiln.wrappers.waiter import GoneWaiter
from kiln.wrappers.waiter_table import WaiterTable
from tests.unit.wrappers.cursor_driver import CursorDriver, PlainDriver
from tests.unit.wrappers.watching import Nobody


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
        """Return the calls of one look, and who was told to be gone."""
        self.driver.calls.clear()
        self.table.admit()
        gone = []
        for answer in self.poll.answers(self.table):
            for status in answer.statuses:
                for waiter in self.table.saw(status, 0.0):
                    waiter.informed = True
            gone += answer.gone
        if all_seen:
            self.assertEqual((), tuple(set(self.table.unseen()) - set(gone)))
        return self.driver.calls, gone


class InquiryTest(InquiryCase):
    def test_a_few_are_asked_for_by_id_for_they_are_not_worth_a_list(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(FEW)
        for _ in range(3):
            self.assertEqual([('statuses', FEW)], self.look()[0])

    def test_many_are_served_by_one_answer_with_everything_and_then_by_changes(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(1000)
        for _ in range(3):
            self.assertEqual([('changes', 0)], self.look()[0])

    def test_new_ones_of_which_nothing_is_told_are_looked_at_by_id_together_and_once(self):
        self.use(CursorDriver(self.clock))
        for number in range(100, 105):
            self.driver.put(f'a{number}')
        self.wait_for(100)
        self.look()
        self.wait_for(5, exist=False)
        self.assertEqual([('changes', 0), ('statuses', 5)], self.look()[0])
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_new_ones_that_are_told_of_are_not_asked_for_besides(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(100)
        self.look()
        self.wait_for(5)
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_a_useful_cursor_serves_also_the_few_that_are_left(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(100)
        self.look()
        self.look()
        for waiter in self.waiters[1:]:
            self.table.drop(waiter)
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_a_cursor_that_is_answered_with_everything_does_not_serve_a_few(self):
        self.use(CursorDriver(self.clock))
        self.driver.always_complete = True
        self.wait_for(100)
        self.look()
        for waiter in self.waiters[1:]:
            self.table.drop(waiter)
        self.assertEqual([('statuses', 1)], self.look()[0])

    def test_what_everything_leaves_out_is_asked_for_by_id_before_it_is_gone(self):
        self.use(CursorDriver(self.clock))
        self.driver.hidden = {'a7'}
        self.wait_for(100)
        self.wait_for(1, exist=False)
        calls, gone = self.look()
        self.assertEqual([('changes', 0), ('statuses', 2)], calls)
        self.assertEqual(['a100'], gone)

    def test_what_changes_leave_out_is_not_gone(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(100)
        self.look()
        self.assertEqual(([('changes', 0)], []), self.look())

    def test_a_driver_without_cursors_is_asked_by_id_after_one_try(self):
        self.use(PlainDriver(self.clock))
        self.wait_for(100)
        self.assertEqual([('changes', 0)], self.look()[0])
        self.assertEqual([('statuses', 100)], self.look()[0])
        self.assertEqual([('statuses', 100)], self.look()[0])

    def test_a_driver_that_had_no_cursor_is_tried_again_after_a_while(self):
        self.use(PlainDriver(self.clock))
        self.wait_for(100)
        self.look()
        self.clock.advance(299.0)
        self.assertEqual([('statuses', 100)], self.look()[0])
        self.clock.advance(1.0)
        self.assertEqual([('changes', 0)], self.look()[0])
        self.assertEqual([('statuses', 100)], self.look()[0])

    def test_now_and_then_all_are_swept_by_id_whatever_changes_say(self):
        self.use(CursorDriver(self.clock))
        self.wait_for(100)
        self.look()
        self.clock.advance(300.0)
        self.assertEqual([('statuses', 100)], self.look()[0])
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_an_answer_that_was_not_taken_in_is_told_again(self):
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
        """Return how many statuses the changes of one look tell of."""
        self.driver.calls.clear()
        self.table.admit()
        answer, *_ = self.poll.answers(self.table)
        return len(answer.statuses)

    def test_those_of_whom_nothing_is_told_are_looked_at_by_id_once_and_then_by_changes(self):
        for count in (4, 2 * FEW):
            self.wait_for(count, exist=False)
            self.assertEqual([('changes', 0), ('statuses', count)], self.look()[0])
            self.assertEqual([('changes', 0)], self.look()[0])

    def test_nobody_is_told_of_those_for_whom_nobody_waits(self):
        self.wait_for(4, exist=False)
        self.assertEqual(0, self.rows())

    def test_what_an_old_cursor_would_tell_is_left_out_where_all_are_new(self):
        self.wait_for(1)
        self.look()
        self.table.drop(self.waiters[0])
        for number in range(500):
            self.driver.put(f'a{number}')
        self.wait_for(1, exist=False)
        self.assertEqual(0, self.rows())

    def test_the_old_cursor_is_kept_while_one_depends_on_it(self):
        self.wait_for(1)
        self.look()
        self.driver.put('a0', State.ACTIVE)
        self.wait_for(1, exist=False)
        self.assertEqual(1, self.rows())

    def test_those_made_since_they_were_ordered_are_not_asked_for_by_id(self):
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

    def test_the_moment_of_the_first_order_counts_where_there_are_several(self):
        cursors = []
        for number in range(4):
            cursors.append(self.cursor_now())
            self.driver.put(f'a{number}')
            self.clock.advance(1.0)
        for since in reversed(cursors):
            self.wait_for(1, exist=False, since=since)
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_one_of_unknown_age_is_looked_at_by_id_beside_those_made_since(self):
        since = self.cursor_now()
        self.driver.put('a0')
        self.clock.advance(1.0)
        self.wait_for(1, exist=False, since=since)
        self.wait_for(1, exist=False)
        self.assertEqual([('changes', 0), ('statuses', 2)], self.look()[0])

    def test_an_order_during_the_looks_of_others_takes_no_question_by_id(self):
        self.wait_for(1, exist=False)
        self.look()
        self.clock.advance(1.0)
        since = self.cursor_now()
        self.wait_for(1, exist=False, since=since)
        # Its backend has agreed to it, and tells of it a moment later.
        self.assertEqual([('changes', 0)], self.look(all_seen=False)[0])
        self.driver.put('a1')
        self.clock.advance(1.0)
        self.assertEqual([('changes', 0)], self.look()[0])

    def test_what_may_have_been_there_is_told_of_or_asked_for_by_id(self):
        since = self.cursor_now(certain=False)
        self.driver.put('a0')
        self.clock.advance(1.0)
        self.wait_for(2, exist=False, since=since)
        self.assertEqual([('changes', 0), ('statuses', 1)], self.look()[0])

    def test_what_was_made_before_it_was_ordered_here_is_asked_for_with_the_second_look(self):
        self.clock.advance(1.0)
        since = self.cursor_now()
        self.clock.advance(1.0)
        self.wait_for(1, exist=False, since=since)
        self.assertEqual([('changes', 0)], self.look(all_seen=False)[0])
        self.clock.advance(1.0)
        self.assertEqual([('changes', 0), ('statuses', 1)], self.look()[0])

    def test_a_failed_look_begins_with_the_same_moment_again(self):
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
        """Make so many, and watch them as builds are watched."""
        since = self.cursor_now()
        self.clock.advance(1.0)
        new = len(self.waiters)
        self.wait_for(count, since=since)
        for waiter in self.waiters[new:]:
            waiter.brief = brief

    def look(self):
        calls, gone = super().look(all_seen=False)
        return calls, gone

    def told(self):
        """Return what one look says of those who are watched."""
        self.table.admit()
        answers = list(self.poll.answers(self.table))
        return {one.amphora_id: one.state for answer in answers for one in answer.statuses}

    def test_who_waits_for_new_ones_to_be_active_is_served_by_ids(self):
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])
        self.driver.put('a2', State.ACTIVE)
        self.assertEqual({'a2': State.ACTIVE}, self.told())

    def test_now_and_then_those_that_failed_are_asked_for_besides_and_why(self):
        self.driver.put('a1', State.ERROR)
        self.assertEqual({}, self.told())
        self.clock.advance(TROUBLE_S)
        self.driver.put('a2', State.ACTIVE)
        self.driver.calls.clear()
        self.assertEqual({'a2': State.ACTIVE, 'a1': State.ERROR}, self.told())
        calls = [('reached', State.ACTIVE), ('reached', State.ERROR), ('statuses', 1)]
        self.assertEqual(calls, self.driver.calls)
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])

    def test_after_a_while_all_that_happened_is_told(self):
        self.look()
        self.driver.remove('a3')
        self.clock.advance(FULL_S)
        self.assertEqual(([('changes', 0)], ['a3']), self.look())
        self.table.gone('a3')
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])

    def test_a_look_at_ids_is_no_look_at_everything(self):
        self.look()
        self.assertTrue(self.poll.brief)
        self.clock.advance(FULL_S)
        self.look()
        self.assertFalse(self.poll.brief)

    def test_one_who_wants_to_hear_of_each_step_makes_it_changes_for_all(self):
        self.look()
        self.build(1, brief=False)
        self.assertEqual([('changes', 0)], self.look()[0])
        self.table.drop(self.waiters[-1])
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])

    def test_a_driver_that_cannot_tell_now_is_asked_for_changes(self):
        self.driver.tells_in_short = False
        self.assertEqual([('changes', 0)], self.look()[0])
        self.assertFalse(self.poll.brief)

    def test_one_that_may_have_been_there_already_is_looked_at_first(self):
        self.look()
        self.driver.put('a4')
        self.clock.advance(1.0)
        since = self.cursor_now(certain=False)
        self.clock.advance(1.0)
        self.wait_for(1, exist=False, since=since)
        self.waiters[-1].brief = True
        self.assertEqual([('changes', 0)], self.look()[0])
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])

    def test_those_seen_on_their_way_are_told_in_short_when_they_are_active(self):
        self.driver.put('a1', State.PENDING)
        self.driver.put('a2', State.BUILDING)
        self.clock.advance(FULL_S)
        self.assertEqual([('changes', 0)], self.look()[0])
        self.driver.put('a1', State.ACTIVE)
        self.driver.put('a2', State.ACTIVE)
        self.driver.calls.clear()
        self.assertEqual({'a1': State.ACTIVE, 'a2': State.ACTIVE}, self.told())
        self.assertEqual([('reached', State.ACTIVE)], self.driver.calls)

    def test_one_that_fails_after_it_was_seen_is_told_in_time(self):
        self.clock.advance(FULL_S)
        self.assertEqual([('changes', 0)], self.look()[0])
        self.driver.put('a1', State.ERROR)
        told = {}
        for _ in range(int(TROUBLE_S)):
            self.clock.advance(1.0)
            told |= self.told()
        self.assertEqual({'a1': State.ERROR}, told)

    def test_the_question_moves_on_and_yet_tells_of_an_order_that_took_long(self):
        slow = self.cursor_now()
        for number in range(3):
            self.driver.put(f'a{number}', State.ACTIVE)
        self.clock.advance(TROUBLE_S)
        self.told()
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
        self.assertEqual({'a5': State.ACTIVE}, self.told())
        self.assertEqual([('reached', State.ACTIVE)], self.driver.calls)
        self.assertLess(self.driver.asked_since, moved_on)

    def test_one_of_which_more_is_known_than_its_build_takes_a_look_at_everything(self):
        self.driver.put('a1', State.UNKNOWN)
        self.clock.advance(FULL_S)
        self.look()
        self.assertEqual([('reached', State.ACTIVE)], self.look()[0])
        self.driver.put('a1', State.ACTIVE)
        self.driver.put('a2', State.ACTIVE)
        self.driver.calls.clear()
        self.assertEqual({'a1': State.ACTIVE, 'a2': State.ACTIVE}, self.told())
        self.assertEqual([('reached', State.ACTIVE), ('changes', 0)], self.driver.calls)

    def test_those_for_whom_nobody_waits_are_left_out(self):
        self.driver.put('a9', State.ACTIVE)
        self.assertEqual({}, self.told())
