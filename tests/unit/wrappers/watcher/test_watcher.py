"""Ends of waits, on a virtual clock."""

import gc
import queue
import threading
import weakref

from kiln.exceptions import (
    BuildFailed,
    DeleteFailed,
    InstanceNotFoundError,
    InsufficientCapacity,
    InvalidRequest,
    OperationCancelled,
    OperationTimeout,
    Outcome,
    QuotaExceeded,
)
from kiln.models import State
from kiln.wrappers.watcher.interval import LAST_POLL_S, NEWS_S
from tests.unit.wrappers.watcher.cursor_driver import CursorDriver, PlainDriver, status
from tests.unit.wrappers.watcher.watching import WatchingTest

BUSY = {'task_state': 'spawning'}


class ToldDriver(CursorDriver):
    """Notifies of changes on request."""

    def on_news(self, hurry):
        self.hurry = hurry


class NewsTest(WatchingTest):
    def make_driver(self):
        return ToldDriver(self.clock)

    def test_a_notification_is_polled_long_before_the_next_poll_is_due(self):
        future = self.begin()
        # After such a long quiet time the next poll is far off.
        self.until(lambda: self.clock.monotonic() > 200)
        self.looks(1)
        quiet = self.clock.monotonic()
        self.driver.put('a', State.ACTIVE)
        self.clock.advance(self.settings.interval_s * 2)
        self.assertFalse(future.done())
        self.driver.hurry()
        self.assertTrue(future.result(timeout=120).ready)
        self.assertEqual(quiet + self.settings.interval_s * 2, self.clock.monotonic())

    def test_a_notification_just_after_a_poll_is_polled_soon(self):
        future = self.begin()
        self.looks(1)
        self.driver.put('a', State.ACTIVE)
        self.driver.hurry()
        self.clock.advance(NEWS_S)
        self.assertTrue(future.result(timeout=120).ready)

    def test_a_notification_without_waiters_causes_no_poll(self):
        self.driver.hurry()
        self.clock.advance(100)
        self.assertEqual([], self.driver.calls)


class GoalTest(WatchingTest):
    def test_a_wait_ends_with_the_status_that_reached_its_goal(self):
        future = self.begin()
        self.assertFalse(future.done())
        self.driver.put('a', State.ACTIVE)
        self.assertEqual(
            ('a', State.ACTIVE), (self.settle(future).amphora_id, future.result().state)
        )

    def test_an_amphora_at_its_goal_already_is_reported_at_once(self):
        self.driver.put('a', State.ACTIVE)
        future = self.watcher.watch('a', {State.ACTIVE})
        self.assertTrue(future.result(timeout=120).ready)
        self.assertEqual(0.0, self.clock.monotonic())

    def test_active_counts_only_without_a_task_in_progress(self):
        self.driver.put('a', State.ACTIVE, **BUSY)
        future = self.watcher.watch('a', {State.ACTIVE})
        self.looks()
        self.assertFalse(future.done())
        self.driver.put('a', State.ACTIVE)
        self.assertTrue(self.settle(future).ready)

    def test_there_is_no_poll_before_soonest_s(self):
        for _ in range(2):
            self.driver.put('a', State.ACTIVE)
            began, looks = self.clock.monotonic(), len(self.ticks.seen)
            self.settle(self.watcher.watch('a', {State.ACTIVE}, soonest_s=2.0))
            self.assertEqual(2.0, self.clock.monotonic() - began)
            self.assertEqual(looks + 1, len(self.ticks.seen))
            self.until(lambda: self.clock.monotonic() > 5.0)

    def test_a_waiter_that_can_end_now_does_not_wait_for_others(self):
        for amphora_id in ('a', 'b'):
            self.driver.put(amphora_id, State.ACTIVE)
        self.watcher.watch('a', {State.ACTIVE}, soonest_s=60.0)
        self.watcher.watch('b', {State.ACTIVE}).result(timeout=120)
        self.assertEqual(0.0, self.clock.monotonic())

    def test_several_waits_for_one_amphora_each_end_at_their_own_goal(self):
        active, stopped = self.begin(), self.begin(goal={State.STOPPED, State.SUSPENDED})
        self.driver.put('a', State.ACTIVE)
        self.settle(active)
        self.looks()
        self.assertFalse(stopped.done())
        self.driver.put('a', State.STOPPED)
        self.assertIs(State.STOPPED, self.settle(stopped).state)

    def test_other_states_do_not_end_a_wait(self):
        future = self.begin(state=State.PENDING)
        for state in (State.UNKNOWN, State.SUSPENDED, State.STOPPED, State.DELETING):
            self.driver.put('a', state)
            self.looks()
            self.assertFalse(future.done(), state)
        self.driver.put('a', State.ACTIVE)
        self.settle(future)

    def test_a_stale_status_ends_no_wait(self):
        answers = [status(state=State.ACTIVE, stale=True)]
        self.driver._statuses = lambda ids: {'a': answers[-1]}
        future = self.watcher.watch('a', {State.ACTIVE})
        self.looks()
        self.assertFalse(future.done())
        self.assertTrue(self.watcher.latest('a').stale)
        answers.append(status(state=State.ACTIVE))
        self.settle(future)

    def test_a_goal_must_be_states(self):
        for goal in ('active', [], ['ready']):
            with self.subTest(goal), self.assertRaisesRegex(InvalidRequest, 'goal must'):
                self.watcher.watch('a', goal)

    def test_on_status_is_called_for_the_first_status_and_once_for_each_change(self):
        heard = []
        future = self.begin(on_status=lambda s: heard.append((s.state, s.task_state)))
        self.looks()
        self.driver.put('a', State.BUILDING, **BUSY)
        self.looks()
        self.driver.put('a', State.ACTIVE)
        self.settle(future)
        self.assertEqual(
            [(State.BUILDING, None), (State.BUILDING, 'spawning'), (State.ACTIVE, None)], heard
        )

    def test_a_failing_callback_is_logged_and_harms_no_other(self):
        with self.assertLogs('kiln.wrappers.watcher.waiter', 'ERROR') as logs:
            failing = self.begin(state=State.ACTIVE, on_status=lambda s: 1 / 0)
            self.settle(failing)
        self.assertIn('callback for amphora a', logs.output[0])


class ErrorTest(WatchingTest):
    def test_an_error_ends_a_wait_by_the_code_of_its_fault(self):
        for code, error in (
            ('insufficient_capacity', InsufficientCapacity),
            ('quota_exceeded', QuotaExceeded),
            ('something_new', BuildFailed),
            (None, BuildFailed),
        ):
            with self.subTest(code):
                future = self.begin()
                self.driver.put('a', State.ERROR, fault='No valid host.', fault_code=code)
                raised = self.settled_error(future)
                self.assertIs(error, type(raised))
                self.assertEqual(
                    (Outcome.APPLIED, 'a', 'east', 'No valid host.'),
                    (raised.outcome, raised.amphora_id, raised.backend, raised.fault),
                )
                self.assertIn('No valid host.', str(raised))

    def test_an_error_without_a_reason_states_so(self):
        self.assertIn('gave no reason', str(self.settled_error(self.begin(state=State.ERROR))))

    def test_error_can_be_the_goal(self):
        self.assertIs(
            State.ERROR, self.settle(self.begin(state=State.ERROR, goal={State.ERROR})).state
        )

    def test_an_amphora_that_is_leaving_error_is_awaited(self):
        self.driver.put('a', State.ERROR, task_state='rebooting_hard')
        future = self.watcher.watch('a', {State.ACTIVE})
        self.looks()
        self.assertFalse(future.done())
        self.driver.put('a', State.ACTIVE)
        self.settle(future)


class GoneTest(WatchingTest):
    def waits(self):
        return (
            self.begin(),
            self.watcher.watch_gone('a'),
            self.watcher.watch('a', {State.DELETED}),
        )

    def check(self, waits):
        active, gone, deleted = waits
        error = self.settled_error(active)
        self.assertIsInstance(error, InstanceNotFoundError)
        self.assertRegex(str(error), 'vanished .* to be active: it was deleted from outside')
        self.assertEqual('a', error.amphora_id)
        self.assertIsNone(self.settle(gone))
        self.assertIs(State.DELETED, self.settle(deleted).state)

    def test_an_amphora_missing_from_the_backend_is_gone(self):
        waits = self.waits()
        self.driver.remove('a')
        self.check(waits)
        self.assertIsNone(self.watcher.latest('a'))

    def test_an_amphora_reported_as_gone_by_changes_is_gone(self):
        for number in range(20):
            self.begin(f'b{number}')
        waits = self.waits()
        self.looks()
        self.driver.calls.clear()
        self.driver.remove('a')
        self.check(waits)
        self.assertEqual({'changes'}, {hook for hook, _ in self.driver.calls})

    def test_an_amphora_reported_as_deleted_is_gone(self):
        waits = self.waits()
        self.driver.put('a', State.DELETED)
        self.check(waits)

    def test_an_unknown_amphora_is_gone_at_the_first_poll(self):
        future = self.watcher.watch('b', {State.ACTIVE})
        self.assertIsInstance(future.exception(timeout=120), InstanceNotFoundError)

    def test_an_amphora_in_error_or_deleting_is_not_gone(self):
        self.driver.put('a', State.ERROR)
        future = self.watcher.watch_gone('a')
        self.looks()
        self.driver.put('a', State.ERROR, task_state='deleting')
        self.looks()
        self.driver.put('a', State.DELETING)
        self.looks()
        self.assertFalse(future.done())
        self.driver.remove('a')
        self.settle(future)

    def test_a_delete_that_ends_in_error_fails_the_wait_at_once(self):
        for was_well, before in ((False, State.DELETING), (True, State.ACTIVE)):
            with self.subTest(before):
                self.driver.put('a', before)
                future = self.watcher.watch_gone('a', was_well=was_well)
                self.looks()
                self.driver.put('a', State.ERROR, fault='A volume is stuck.')
                error = self.settled_error(future)
                self.assertIs(DeleteFailed, type(error))
                self.assertIn('went to error, A volume is stuck. It still', str(error))
                self.assertEqual('A volume is stuck.', error.fault)
                self.driver.remove('a')


class DeadlineTest(WatchingTest):
    def test_a_timed_out_wait_names_the_last_state_and_its_age(self):
        self.driver.put('a', State.BUILDING, **BUSY)
        error = self.settled_error(
            self.watcher.watch('a', {State.ACTIVE}, deadline=self.after(60))
        )
        self.assertIsInstance(error, OperationTimeout)
        self.assertRegex(
            str(error),
            r"be active on 'east': it was building \(spawning\) when last polled, \d+\.\d s ago",
        )
        self.assertEqual(('a', 'east'), (error.amphora_id, error.backend))
        self.assertGreaterEqual(self.clock.monotonic(), 60)

    def test_a_wait_for_a_delete_times_out_too(self):
        self.driver.put('a', State.DELETING)
        error = self.settled_error(self.watcher.watch_gone('a', deadline=self.after(5)))
        self.assertRegex(str(error), 'to be gone .* it was deleting when')

    def test_a_change_after_the_last_regular_poll_is_found_before_the_deadline(self):
        future = self.begin(deadline=self.after(1000))
        # Long after the last change polls are far apart.
        left_s = 999 - self.clock.monotonic()
        self.scheduler.call_later(left_s, lambda: self.driver.put('a', State.ACTIVE))
        self.assertTrue(self.settle(future).ready)
        self.assertLess(self.clock.monotonic(), 1000)

    def test_waits_that_end_together_share_their_last_poll(self):
        deadline = self.after(1000)
        futures = [self.begin(f'a{n}', deadline=deadline) for n in range(5)]
        looks = []
        self.driver.on_call = lambda hook: looks.append(self.clock.monotonic())
        for future in futures:
            self.assertIsInstance(self.settled_error(future), OperationTimeout)
        in_the_end = [at for at in looks if at > 1000 - 1.001 * LAST_POLL_S]
        self.assertEqual(1, len(in_the_end), looks[-4:])

    def test_a_deadline_in_the_past_ends_the_wait(self):
        self.driver.put('a')
        future = self.watcher.watch('a', {State.ACTIVE}, deadline=self.after(-1))
        self.assertIsInstance(future.exception(timeout=120), OperationTimeout)
        self.assertEqual(0.0, self.clock.monotonic())

    def test_a_wait_that_ends_in_time_cancels_its_deadline(self):
        future = self.begin(deadline=self.after(60))
        self.driver.put('a', State.ACTIVE)
        self.settle(future)
        self.assertIsNone(future.appointment.function)


class CancelTest(WatchingTest):
    def test_a_cancelled_wait_is_forgotten(self):
        future = self.begin(deadline=self.after(1000))
        self.assertTrue(future.cancel())
        calls = len(self.driver.calls)
        self.clock.advance(5)
        self.assertEqual(calls, len(self.driver.calls))
        gone = weakref.ref(future)
        del future
        gc.collect()
        self.assertIsNone(gone())

    def test_cancelling_wakes_the_thread_that_waits(self):
        future = self.begin()
        threading.Timer(0.02, future.cancel).start()
        self.assertIsInstance(future.exception(timeout=120), OperationCancelled)

    def test_cancelling_one_wait_leaves_the_other(self):
        first, second = self.begin(), self.begin()
        first.cancel()
        self.driver.put('a', State.ACTIVE)
        self.settle(second)

    def test_a_wait_cancelled_in_its_own_callback_ends_there(self):
        for state in (State.ACTIVE, State.ERROR):
            with self.subTest(state):
                futures = queue.SimpleQueue()
                self.driver.put('a', state)
                future = self.watcher.watch(
                    'a',
                    {State.ACTIVE},
                    on_status=lambda _, futures=futures: futures.get(timeout=120).cancel(),
                )
                futures.put(future)
                self.until(future.done)
                self.assertIsInstance(future.exception(), OperationCancelled)

    def test_a_cancelled_wait_is_not_notified_again(self):
        heard = []
        first = self.begin(on_status=lambda seen: seen.ready and second.cancel())
        second = self.watcher.watch('a', {State.ACTIVE}, on_status=heard.append)
        self.until(lambda: heard)
        self.driver.put('a', State.ACTIVE)
        self.settle(first)
        self.assertIsInstance(second.exception(timeout=0), OperationCancelled)
        self.assertEqual([State.BUILDING], [status.state for status in heard])


class CloseTest(WatchingTest):
    def test_closing_ends_all_waits_at_once(self):
        waits = [self.begin(), self.begin('b'), self.watcher.watch_gone('a')]
        self.watcher.close()
        for future in waits:
            error = future.exception(timeout=0)
            self.assertIsInstance(error, OperationCancelled)
            self.assertIn("'east' is closed", str(error))
        self.watcher.close()

    def test_a_closed_watcher_ends_new_waits_in_the_same_way(self):
        self.watcher.close()
        future = self.watcher.watch('a', {State.ACTIVE}, deadline=self.after(5))
        self.assertIsInstance(future.exception(timeout=0), OperationCancelled)
        self.assertEqual([], self.driver.calls)

    def test_a_callback_can_close_the_watcher(self):
        self.driver.put('a')
        future = self.watcher.watch('a', {State.ACTIVE}, on_status=lambda s: self.watcher.close())
        self.assertIsInstance(self.settled_error(future), OperationCancelled)


class HungCloseTest(WatchingTest):
    close_s = 0.01

    def test_closing_does_not_wait_long_for_a_hanging_backend(self):
        hang, hung = threading.Event(), threading.Event()
        self.addCleanup(hang.set)
        self.driver.on_call = lambda hook: (hung.set(), hang.wait(120))
        future = self.watcher.watch('a', {State.ACTIVE})
        self.assertTrue(hung.wait(120))
        self.watcher.close()
        self.assertTrue(future.done())


class ThreadTest(WatchingTest):
    def threads(self):
        return [one for one in threading.enumerate() if one.name == 'east-watcher']

    def test_there_is_no_thread_before_the_first_wait(self):
        self.assertEqual([], self.threads())

    def test_the_thread_ends_without_waiters_and_starts_again(self):
        for _ in range(2):
            self.settle(self.begin(state=State.ACTIVE))
            self.assertEqual(1, len(self.threads()))
            self.until(lambda: not self.threads())

    def test_the_thread_stays_a_while_for_the_next_waiter(self):
        self.settle(self.begin(state=State.ACTIVE))
        (thread,) = self.threads()
        self.clock.advance(5)
        self.settle(self.begin('b', state=State.ACTIVE))
        self.assertEqual([thread], self.threads())


class ManyTest(WatchingTest):
    COUNT = 10_000

    def calls_per_tick(self):
        return len(self.driver.calls) / len(self.ticks.seen)

    def watch_all(self):
        ids = [f'a{number}' for number in range(self.COUNT)]
        for amphora_id in ids:
            self.driver.put(amphora_id)
        futures = [self.watcher.watch(amphora_id, {State.ACTIVE}) for amphora_id in ids]
        # The last one first: to ask for ten thousand at each step keeps the watcher waiting.
        self.until(lambda: all(map(self.watcher.latest, reversed(ids))))
        # In this order, or a poll between the two would count as an additional call.
        self.ticks.seen.clear()
        self.driver.calls.clear()
        return ids, futures

    def test_ten_thousand_waits_are_served_by_one_call_per_poll(self):
        ids, futures = self.watch_all()
        for amphora_id in ids[:10]:
            self.driver.put(amphora_id, State.ACTIVE)
        self.until(lambda: all(future.done() for future in futures[:10]))
        self.assertEqual(10, sum(future.done() for future in futures))
        self.looks(5)
        for amphora_id in ids:
            self.driver.put(amphora_id, State.ACTIVE)
        self.until(lambda: all(future.done() for future in reversed(futures)))
        # The poll that ended all waits is reported after it has ended.
        self.until(lambda: self.ticks.seen[-1][:2] == ('east', 0))
        self.assertLessEqual(self.calls_per_tick(), 1)


class ManyOnPlainDriverTest(ManyTest):
    def make_driver(self):
        return PlainDriver(self.clock)
