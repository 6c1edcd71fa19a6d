"""Deadlines, and the virtual clock that moves only when a test advances it."""

import contextvars
import math
import threading
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.clock import SYSTEM_CLOCK, Deadline, current_deadline, deadline_scope
from kiln.testing.clock import VirtualClock


class DeadlineTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()

    def test_the_time_left_decreases_and_becomes_negative(self):
        deadline = Deadline.after(10, self.clock)
        self.assertEqual(deadline.remaining_s(), 10)
        self.clock.advance(4)
        self.assertEqual((deadline.remaining_s(), deadline.passed), (6, False))
        self.clock.advance(7)
        self.assertEqual((deadline.remaining_s(), deadline.passed), (-1, True))

    def test_it_has_passed_at_the_exact_time(self):
        deadline = Deadline.after(10, self.clock)
        self.clock.advance(10)
        self.assertTrue(deadline.passed)

    def test_it_ignores_the_wall_clock(self):
        deadline = Deadline.after(10, self.clock)
        self.clock.step(3600)
        self.assertEqual(deadline.remaining_s(), 10)

    def test_deadlines_at_the_same_time_are_equal_with_any_clock(self):
        self.assertEqual(Deadline(5.0, self.clock), Deadline(5.0))
        self.assertEqual(repr(Deadline(5.0)), 'Deadline(at=5.0)')

    def test_without_a_clock_it_uses_the_system_clock(self):
        deadline = Deadline.after(3600)
        self.assertIs(deadline.clock, SYSTEM_CLOCK)
        self.assertFalse(deadline.passed)
        self.assertTrue(Deadline.after(0).passed)


class ScopeTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()

    def after(self, seconds):
        return Deadline.after(seconds, self.clock)

    def test_outside_any_scope_there_is_no_deadline(self):
        self.assertIsNone(current_deadline())

    def test_the_deadline_applies_inside_the_scope_and_not_after_it(self):
        deadline = self.after(5)
        with deadline_scope(deadline):
            self.assertIs(current_deadline(), deadline)
        self.assertIsNone(current_deadline())

    def test_an_error_also_ends_a_scope(self):
        with self.assertRaises(ZeroDivisionError), deadline_scope(self.after(5)):
            raise ZeroDivisionError
        self.assertIsNone(current_deadline())

    def test_a_scope_without_a_deadline_keeps_the_outer_deadline(self):
        deadline = self.after(5)
        with deadline_scope(deadline), deadline_scope(None):
            self.assertIs(current_deadline(), deadline)
        with deadline_scope(None):
            self.assertIsNone(current_deadline())

    @given(st.lists(st.none() | st.integers(1, 100), max_size=6))
    def test_the_earliest_of_nested_deadlines_applies(self, all_seconds):
        def enter(rest, nearest):
            current = current_deadline()
            self.assertEqual(current and current.at, nearest)
            if rest:
                seconds = rest[0]
                inner = [at for at in (seconds, nearest) if at is not None]
                with deadline_scope(None if seconds is None else Deadline(seconds, self.clock)):
                    enter(rest[1:], min(inner, default=None))
                self.assertIs(current_deadline(), current)

        enter(all_seconds, None)

    def test_another_thread_has_the_deadline_only_with_the_callers_context(self):
        deadline, seen = self.after(5), []

        def look():
            seen.append(current_deadline())

        with deadline_scope(deadline):
            context = contextvars.copy_context()
            for target in (look, lambda: context.run(look)):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()
        self.assertEqual(seen, [None, deadline])


class SystemClockTest(unittest.TestCase):
    def test_a_wait_ends_when_notified_and_when_it_times_out(self):
        condition = threading.Condition()
        with condition:
            self.assertFalse(SYSTEM_CLOCK.wait(condition, 0.001))

    def test_a_wait_beyond_the_system_limit_still_waits(self):
        for seconds in (None, math.inf, 1e30, threading.TIMEOUT_MAX * 2):
            with self.subTest(seconds):
                self.assertTrue(self.told_while_waiting(seconds))

    def told_while_waiting(self, seconds):
        """Return the result of a wait that is notified."""
        condition, waits, answers = threading.Condition(), threading.Event(), []

        def wait():
            with condition:
                waits.set()
                answers.append(SYSTEM_CLOCK.wait(condition, seconds))

        thread = threading.Thread(target=wait)
        thread.start()
        waits.wait()
        # The lock is free only once the thread waits.
        with condition:
            condition.notify_all()
        thread.join()
        return answers == [True]


class VirtualClockTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()

    def in_thread(self, function):
        thread = threading.Thread(target=function)
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def waiting(self, count):
        """Return once that many threads wait for time to pass."""
        self.clock.run_until(lambda: self.clock.waiting == count, step_s=0)

    def test_virtual_time_stands_still_until_it_is_advanced(self):
        self.assertEqual((self.clock.monotonic(), self.clock.time()), (0, 1_700_000_000))
        self.clock.advance(2.5)
        self.assertEqual((self.clock.monotonic(), self.clock.time()), (2.5, 1_700_000_002.5))

    def test_a_jump_of_the_wall_clock_does_not_change_monotonic_time(self):
        self.clock.advance(10)
        self.clock.step(-3600)
        self.assertEqual((self.clock.monotonic(), self.clock.time()), (10, 1_699_996_410))

    def test_a_sleeper_wakes_on_time_and_not_before(self):
        woke = []

        def sleep():
            self.clock.sleep(10)
            woke.append(self.clock.monotonic())

        thread = self.in_thread(sleep)
        self.waiting(1)
        self.assertEqual(self.clock.next_alarm_s(), 10)
        self.clock.advance(9)
        self.assertEqual((woke, self.clock.next_alarm_s()), ([], 1))
        self.clock.advance(1)
        thread.join()
        self.assertEqual(woke, [10])
        self.assertEqual((self.clock.waiting, self.clock.next_alarm_s()), (0, None))

    def test_sleeping_zero_seconds_does_not_wait(self):
        self.clock.sleep(0)
        self.clock.sleep(-1)
        self.assertEqual(self.clock.monotonic(), 0)

    def test_an_advance_over_several_alarms_rings_each_at_its_own_time(self):
        threads = [self.in_thread(lambda s=s: self.clock.sleep(s)) for s in (30, 10, 20)]
        self.waiting(3)
        self.clock.advance(25)
        threads[1].join()
        threads[2].join()
        self.waiting(1)
        self.assertEqual(self.clock.next_alarm_s(), 5)
        self.clock.advance(5)

    def test_a_wait_returns_whether_it_was_notified_or_timed_out(self):
        answers, condition = [], threading.Condition()

        def wait():
            with condition:
                answers.append(self.clock.wait(condition, 5))

        first = self.in_thread(wait)
        self.waiting(1)
        with condition:
            condition.notify_all()
        first.join()
        second = self.in_thread(wait)
        self.waiting(1)
        self.clock.advance(5)
        second.join()
        self.assertEqual(answers, [True, False])

    def test_a_wait_without_time_left_does_not_wait(self):
        condition = threading.Condition()
        with condition:
            self.assertFalse(self.clock.wait(condition, 0))
            self.assertFalse(self.clock.wait(condition, -1))

    def test_an_endless_wait_ends_when_notified(self):
        condition, told = threading.Condition(), []

        def wait():
            with condition:
                while not told:
                    self.clock.wait(condition, None)

        thread = self.in_thread(wait)
        self.clock.advance(1e9)
        with condition:
            told.append(True)
            condition.notify_all()
        thread.join()

    def test_run_until_fails_if_the_condition_never_holds(self):
        with self.assertRaisesRegex(AssertionError, 'not done after .* virtual'):
            self.clock.run_until(lambda: False, real_timeout_s=0.01)

    def test_run_until_does_not_move_the_clock_if_the_condition_holds(self):
        self.clock.run_until(lambda: True)
        self.assertEqual(self.clock.monotonic(), 0)

    @given(st.lists(st.floats(0, 1e6), max_size=8))
    def test_virtual_time_never_decreases(self, leaps):
        clock, seen = VirtualClock(), [0.0]
        for leap in leaps:
            clock.advance(leap)
            seen.append(clock.monotonic())
        self.assertEqual(seen, sorted(seen))
        self.assertAlmostEqual(seen[-1], sum(leaps))
