"""Waits during failures of the backend."""

import itertools
import threading
import time

from kiln.exceptions import (
    CircuitOpenError,
    InstanceNotFoundError,
    OperationTimeout,
    RateLimited,
    ServiceUnavailable,
)
from kiln.models import State
from kiln.telemetry.events import Listener
from kiln.wrappers.operations.errand import NoAnswerSoFar
from kiln.wrappers.watcher.watcher import Watcher
from tests.unit.wrappers.watcher.cursor_driver import status
from tests.unit.wrappers.watcher.watching import WatchingTest

LOG = 'kiln.wrappers.watcher.watcher'


class HangTest(WatchingTest):
    def setUp(self):
        super().setUp()
        self.release, self.hung = threading.Event(), threading.Event()
        self.addCleanup(self.release.set)

    def hang(self):
        self.driver.on_call = lambda hook: (self.hung.set(), self.release.wait(120))

    def test_deadlines_hold_during_a_hanging_poll_for_early_and_late_waits(self):
        self.driver.put('a')
        self.hang()
        early = self.watcher.watch('a', {State.ACTIVE}, deadline=self.after(10))
        self.assertTrue(self.hung.wait(120))
        late = self.watcher.watch('a', {State.ACTIVE}, deadline=self.after(20))
        for future in (early, late):
            error = self.settled_error(future)
            self.assertIsInstance(error, OperationTimeout)
            self.assertIn('no poll has returned its status', str(error))
        self.assertLess(self.clock.monotonic(), 100)

    def test_an_answer_to_an_earlier_poll_does_not_end_a_wait(self):
        self.driver.put('a', State.ACTIVE)
        self.hang()
        early = self.watcher.watch('a', {State.ACTIVE})
        self.assertTrue(self.hung.wait(120))
        # The amphora is being rebuilt and a waiter waits for that, while the answer to an
        # earlier poll is still on its way.
        late = self.watcher.watch('a', {State.ACTIVE})
        self.release.set()
        early.result(timeout=120)
        self.driver.put('a', State.BUILDING)
        self.looks()
        self.assertFalse(late.done())
        self.driver.put('a', State.ACTIVE)
        self.settle(late)

    def test_known_statuses_become_stale_during_a_hanging_poll(self):
        self.begin()
        self.assertFalse(self.watcher.latest('a').stale)
        self.hang()
        self.until(self.hung.is_set)
        age_s = self.clock.time() - self.watcher.latest('a').observed_at
        self.clock.advance(59 - age_s)
        self.assertFalse(self.watcher.latest('a').stale)
        self.clock.advance(2)
        self.assertTrue(self.watcher.latest('a').stale)
        self.release.set()
        self.until(lambda: not self.watcher.latest('a').stale)


class OutageTest(WatchingTest):
    def setUp(self):
        super().setUp()
        self.trouble = None
        self.called_at = []
        self.driver.on_call = self.fail_perhaps

    def fail_perhaps(self, hook):
        self.called_at.append(self.clock.monotonic())
        if self.trouble is not None:
            raise self.trouble

    def test_an_outage_ends_no_wait_and_is_logged_once_at_its_start_and_end(self):
        future = self.begin()
        with self.assertLogs(LOG, 'INFO') as logs:
            self.trouble = ServiceUnavailable('Nova is silent.')
            self.looks(5)
            self.assertFalse(future.done())
            self.trouble, _ = None, self.driver.put('a', State.ACTIVE)
            self.settle(future)
        self.assertEqual(['WARNING', 'INFO'], [record.levelname for record in logs.records])
        self.assertIn('Nova is silent', logs.output[0])

    def test_known_statuses_are_stale_during_an_outage(self):
        self.begin()
        with self.assertLogs(LOG):
            self.trouble = ServiceUnavailable('Nova is silent.')
            self.until(lambda: self.watcher.latest('a').stale)
            self.assertIs(State.BUILDING, self.watcher.latest('a').state)
            self.trouble = None
            self.until(lambda: not self.watcher.latest('a').stale)

    def test_a_wait_that_times_out_in_an_outage_states_so(self):
        future = self.begin(deadline=self.after(50))
        with self.assertLogs(LOG, 'WARNING'):
            self.trouble = ServiceUnavailable('Nova is silent.')
            error = self.settled_error(future)
        self.assertRegex(str(error), r'it was building when last polled, \d+\.\d s ago')
        self.assertRegex(str(error), 'does not answer now: Nova is silent')

    def test_polls_back_off_in_an_outage_and_are_fast_again_after_it(self):
        self.begin()
        with self.assertLogs(LOG):
            self.trouble = ServiceUnavailable('Nova is silent.')
            self.looks(7)
            self.watcher.watch('b', {State.ACTIVE})
            self.looks(3)
            self.trouble = None
            self.until(lambda: not self.watcher.latest('a').stale)
        self.driver.put('a', State.BUILDING, task_state='spawning')
        self.looks(3)
        gaps = [later - sooner for sooner, later in itertools.pairwise(self.called_at)]
        # A new waiter is not a reason to poll more often.
        self.assertTrue(all(gap >= 30 for gap in gaps[-7:-4]), gaps)
        self.assertLess(gaps[-1], 20)

    def test_polls_resume_at_once_when_the_backend_answers_other_calls(self):
        self.begin()
        with self.assertLogs(LOG):
            self.trouble = ServiceUnavailable('Nova is silent.')
            self.looks(8)
            self.trouble = None
            failed_at, polls = self.called_at[-1], len(self.called_at)
            self.watcher.resume()
            self.until(lambda: len(self.called_at) > polls)
        self.assertLess(self.called_at[polls] - failed_at, 30)

    def test_there_is_no_poll_before_retry_after(self):
        for error in (CircuitOpenError, RateLimited):
            with self.subTest(error.code), self.assertLogs(LOG):
                future = self.begin()
                self.trouble = error('Not now.', retry_after=100.0)
                self.looks(1)
                self.trouble = None
                self.driver.calls.clear()
                self.driver.put('a', State.ACTIVE)
                self.watcher.watch('b', {State.ACTIVE})
                for _ in range(99):
                    self.clock.advance(1)
                self.assertEqual([], self.driver.calls)
                self.settle(future)

    def test_a_new_waiter_whose_poll_failed_is_polled_later(self):
        self.trouble = ServiceUnavailable('Nova is silent.')
        self.driver.put('a', State.ACTIVE)
        with self.assertLogs(LOG):
            future = self.watcher.watch('a', {State.ACTIVE})
            self.looks(3)
            self.assertIsNone(self.watcher.latest('a'))
            self.trouble = None
            self.settle(future)

    def test_not_found_for_a_whole_poll_proves_nothing_about_an_amphora(self):
        future = self.begin()
        self.trouble = InstanceNotFoundError('Nothing of that id.')
        with self.assertLogs(LOG, 'WARNING'):
            self.looks(3)
        self.assertFalse(future.done())


class DefectTest(WatchingTest):
    def test_a_defect_is_logged_with_its_traceback_and_the_thread_continues(self):
        future = self.begin()
        right = self.driver._statuses
        self.driver._statuses = lambda ids: {'a': 'not a status'}
        with self.assertLogs(LOG, 'INFO') as logs:
            self.looks(4)
            self.driver._statuses = right
            self.driver.put('a', State.ACTIVE)
            self.settle(future)
        self.assertEqual(['ERROR', 'INFO'], [record.levelname for record in logs.records])
        self.assertIn('AttributeError', logs.output[0])

    def test_system_exit_in_a_client_library_does_not_end_the_thread(self):
        def leave(hook):
            raise SystemExit(1)

        future = self.begin()
        self.driver.on_call = leave
        with self.assertLogs(LOG, 'ERROR'):
            self.looks(2)
            self.driver.on_call = lambda hook: None
            self.driver.put('a', State.ACTIVE)
            self.settle(future)

    def test_a_failing_listener_does_not_end_the_thread(self):
        class Failing(Listener):
            def ticked(self, backend, watched, lag_s):
                raise ZeroDivisionError

        watcher = Watcher(self.driver, scheduler=self.scheduler, listener=Failing())
        self.addCleanup(watcher.close)
        self.driver.put('a')
        with self.assertLogs('kiln.telemetry.events', 'ERROR'):
            future = watcher.watch('a', {State.ACTIVE})
            self.until(lambda: len(self.driver.calls) > 2)
        self.driver.put('a', State.ACTIVE)
        self.settle(future)


class LatestTest(WatchingTest):
    def test_an_amphora_that_was_never_watched_has_no_status(self):
        self.assertIsNone(self.watcher.latest('a'))

    def test_a_past_status_is_remembered_and_becomes_stale(self):
        self.settle(self.begin(state=State.ACTIVE))
        self.assertFalse(self.watcher.latest('a').stale)
        self.clock.advance(61)
        latest = self.watcher.latest('a')
        self.assertEqual((State.ACTIVE, True), (latest.state, latest.stale))

    def test_a_poll_without_changes_confirms_known_statuses(self):
        for number in range(20):
            self.begin(f'a{number}')
        first = self.watcher.latest('a0').observed_at
        self.driver.calls.clear()
        for _ in range(10):
            self.looks(2)
        self.assertEqual({'changes'}, {hook for hook, _ in self.driver.calls})
        latest = self.watcher.latest('a0')
        self.assertGreater(latest.observed_at, first + 10)
        self.assertFalse(latest.stale)

    def test_a_stale_mark_of_the_driver_is_kept(self):
        self.driver._statuses = lambda ids: {'a': status(observed_at=17.0)}
        self.watcher.watch('a', {State.ACTIVE})
        self.until(lambda: self.watcher.latest('a'))
        self.assertEqual(17.0, self.watcher.latest('a').observed_at)

    def test_lag_is_the_delay_of_a_poll(self):
        self.driver.put('a')
        self.watcher.watch('a', {State.ACTIVE})
        while not self.ticks.seen:
            time.sleep(0.001)
        self.assertEqual([('east', 1, 0.0)], self.ticks.seen)
        # It wakes at about 1, or later if the machine is busy.
        self.clock.advance(7)
        while len(self.ticks.seen) < 2:
            time.sleep(0.001)
        lag_s = self.ticks.seen[1][2]
        self.assertTrue(0 <= lag_s <= 6.1, lag_s)


class ReportTest(WatchingTest):
    """What waiters are told of an outage, as states alone do not show one."""

    def setUp(self):
        super().setUp()
        self.seen, self.trouble = [], None
        self.driver.put('a')

    def wait(self):
        return self.watcher.watch('a', {State.ACTIVE}, on_outage=self.seen.append)

    def fail_perhaps(self, hook):
        if self.trouble is not None:
            raise self.trouble

    def test_a_poll_without_an_answer_is_reported_and_that_it_was_answered(self):
        release, hung = threading.Event(), threading.Event()
        self.addCleanup(release.set)
        self.driver.on_call = lambda hook: (hung.set(), release.wait(120))
        future = self.wait()
        self.until(lambda: hung.is_set() and self.seen)
        self.assertIsInstance(self.seen[0], NoAnswerSoFar)
        self.assertIn("'east' has not answered for over 3 s", str(self.seen[0]))
        self.driver.put('a', State.ACTIVE)
        release.set()
        self.settle(future)
        self.until(lambda: self.seen[-1] is None or future.done())

    def test_an_outage_is_reported_to_early_and_late_waiters_and_so_is_its_end(self):
        self.driver.on_call = self.fail_perhaps
        early = self.wait()
        with self.assertLogs(LOG, 'INFO'):
            self.trouble = ServiceUnavailable('Nova is silent.')
            self.until(lambda: self.seen)
            late = []
            self.watcher.watch('a', {State.ACTIVE}, on_outage=late.append)
            self.assertEqual([self.trouble], late)
            self.trouble = None
            self.until(lambda: self.seen[-1] is None and late[-1] is None)
        self.driver.put('a', State.ACTIVE)
        self.settle(early)

    def test_a_backend_that_answers_is_not_reported(self):
        future = self.wait()
        self.clock.advance(30)
        self.driver.put('a', State.ACTIVE)
        self.settle(future)
        self.assertEqual([], self.seen)
