"""Scheduler: functions called on time, in order, on one thread."""

import threading
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.clock import SYSTEM_CLOCK
from kiln.testing.clock import VirtualClock
from kiln.wrappers.operations.scheduler import Scheduler


class SchedulerTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.scheduler = Scheduler(name='east', clock=self.clock)
        self.addCleanup(self.scheduler.close)
        self.called = []

    def call_later(self, delay_s, name):
        return self.scheduler.call_later(delay_s, lambda: self.called.append(name))

    def until_called(self, *names):
        self.clock.run_until(lambda: len(self.called) >= len(names), step_s=0)
        self.assertEqual(self.called, list(names))

    def asleep(self):
        """Return once the scheduler waits for time to pass."""
        self.clock.run_until(lambda: self.clock.waiting == 1, step_s=0)

    def test_a_function_is_called_on_time_and_not_before(self):
        self.call_later(10, 'a')
        self.asleep()
        self.clock.advance(9.9)
        self.asleep()
        self.assertEqual(self.called, [])
        self.clock.advance(0.1)
        self.until_called('a')

    def test_the_earlier_appointment_is_called_first_in_any_order(self):
        self.call_later(20, 'late')
        self.asleep()
        self.call_later(10, 'early')
        # It woke for the earlier appointment and sleeps again, for a shorter time.
        self.clock.run_until(lambda: self.clock.next_alarm_s() == 10, step_s=0)
        self.clock.advance(10)
        self.until_called('early')
        self.clock.run_until(lambda: self.clock.next_alarm_s() == 10, step_s=0)
        self.clock.advance(10)
        self.until_called('early', 'late')

    @given(st.lists(st.integers(0, 5), max_size=12))
    def test_functions_of_the_same_time_are_called_in_order(self, delays):
        clock, called, ready = VirtualClock(), [], threading.Event()
        scheduler = Scheduler(clock=clock)
        try:
            # The first function holds the thread, so that all are queued afterwards.
            scheduler.call_later(0, ready.wait)
            for i, delay_s in enumerate(delays):
                scheduler.call_later(delay_s, lambda entry=(delay_s, i): called.append(entry))
            clock.advance(10)
            ready.set()
            clock.run_until(lambda: len(called) == len(delays), step_s=0)
        finally:
            ready.set()
            scheduler.close()
        self.assertEqual(called, sorted(called))

    def test_a_time_in_the_past_means_now(self):
        self.call_later(-5, 'a')
        self.until_called('a')

    def test_all_functions_are_called_on_one_thread_named_after_the_backend(self):
        for _ in range(3):
            self.scheduler.call_later(0, lambda: self.called.append(threading.current_thread()))
        self.clock.run_until(lambda: len(self.called) == 3, step_s=0)
        (thread,) = set(self.called)
        self.assertEqual((thread.name, thread.daemon), ('east-scheduler', True))

    def test_without_appointments_there_is_no_thread(self):
        self.assertNotIn('idle-scheduler', self.threads())
        scheduler = Scheduler(name='idle', clock=self.clock)
        self.addCleanup(scheduler.close)
        self.assertNotIn('idle-scheduler', self.threads())
        scheduler.call_later(1, list)
        self.assertIn('idle-scheduler', self.threads())

    def threads(self):
        return [thread.name for thread in threading.enumerate()]

    def test_a_cancelled_function_is_not_called(self):
        self.call_later(1, 'cancelled').cancel()
        self.call_later(2, 'kept')
        self.asleep()
        self.clock.run_until(lambda: self.called)
        self.assertEqual(self.called, ['kept'])

    def test_cancelling_again_or_after_the_call_is_harmless(self):
        appointment = self.call_later(0, 'a')
        self.until_called('a')
        appointment.cancel()
        appointment.cancel()
        self.call_later(0, 'b')
        self.until_called('a', 'b')

    def test_a_failing_function_is_logged_and_stops_no_other(self):
        def fail():
            raise ZeroDivisionError('oh')

        with self.assertLogs('kiln.wrappers.operations.scheduler', 'ERROR') as logs:
            self.scheduler.call_later(0, fail)
            self.call_later(0, 'a')
            self.until_called('a')
        self.assertEqual(len(logs.records), 1)
        self.assertIn('A scheduled function of east failed', logs.output[0])
        self.assertIn('ZeroDivisionError: oh', logs.output[0])

    def test_a_function_can_make_the_next_appointment(self):
        def again():
            self.called.append(self.clock.monotonic())
            if len(self.called) < 3:
                self.scheduler.call_later(5, again)

        again()
        self.clock.run_until(lambda: len(self.called) == 3, step_s=5)

    def test_cancelled_appointments_in_the_far_future_do_not_fill_the_memory(self):
        kept = [self.call_later(3600 + i, i) for i in range(100)]
        for _ in range(10_000):
            self.call_later(3600, 'never').cancel()
        self.assertLess(len(self.scheduler._queue), 2500)
        self.clock.run_until(lambda: len(self.called) == len(kept), step_s=3600)
        self.assertEqual(self.called, list(range(100)))


class ClosingTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.scheduler = Scheduler(name='closing', clock=self.clock)
        self.called = []

    def assertNoThread(self):  # noqa: N802
        self.assertNotIn('closing-scheduler', [thread.name for thread in threading.enumerate()])

    def test_closing_drops_all_appointments_and_ends_the_thread(self):
        self.scheduler.call_later(1, lambda: self.called.append(1))
        self.scheduler.close()
        self.assertNoThread()
        self.clock.advance(10)
        self.assertEqual(self.called, [])

    def test_closing_twice_or_before_the_first_appointment_is_harmless(self):
        self.scheduler.close()
        self.scheduler.close()
        self.assertNoThread()

    def test_an_appointment_with_a_closed_scheduler_is_never_kept(self):
        self.scheduler.close()
        appointment = self.scheduler.call_later(0, lambda: self.called.append(1))
        appointment.cancel()
        self.assertNoThread()
        self.assertEqual(self.called, [])

    def test_a_function_can_close_its_own_scheduler(self):
        done = threading.Event()

        def close():
            self.scheduler.close()
            done.set()

        self.scheduler.call_later(0, close)
        self.assertTrue(done.wait(120))
        self.clock.run_until(
            lambda: 'closing-scheduler' not in [t.name for t in threading.enumerate()], step_s=0
        )

    def test_closing_waits_for_the_running_function(self):
        begun, go_on = threading.Event(), threading.Event()

        def slow():
            begun.set()
            go_on.wait()
            self.called.append('slow')

        self.scheduler.call_later(0, slow)
        begun.wait()
        closing = threading.Thread(target=self.scheduler.close)
        closing.start()
        go_on.set()
        closing.join()
        self.assertEqual(self.called, ['slow'])


class OnTheRealClock(unittest.TestCase):
    def test_an_appointment_at_infinity_does_not_delay_others(self):
        scheduler = Scheduler(name='real', clock=SYSTEM_CLOCK)
        self.addCleanup(scheduler.close)
        scheduler.call_later(float('inf'), list)
        called = threading.Event()
        scheduler.call_later(0.001, called.set)
        self.assertTrue(called.wait(120))
