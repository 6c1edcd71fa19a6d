"""An operation is a future that tells its story and survives a restart."""

import asyncio
import json
import threading
import unittest

from kiln.clock import Deadline
from kiln.exceptions import OperationCancelled, Outcome, ServiceUnavailable
from kiln.testing.clock import VirtualClock
from kiln.wrappers.operation import MAX_EVENTS, Operation, OperationState, Priority


class OperationTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.operation = Operation('build', backend='east', subject='a', clock=self.clock)


class Outcomes(OperationTest):
    def test_the_first_outcome_wins(self):
        self.assertTrue(self.operation.resolve(1))
        self.assertFalse(self.operation.resolve(2))
        self.assertFalse(self.operation.fail(ValueError()))
        self.assertEqual(1, self.operation.result())
        self.assertIs(OperationState.SUCCEEDED, self.operation.state)

    def test_none_is_a_result_as_good_as_any(self):
        self.operation.resolve(None)
        self.assertTrue(self.operation.done())
        self.assertIsNone(self.operation.result())

    def test_a_failure_is_raised_by_result_and_returned_by_exception(self):
        error = ServiceUnavailable('gone')
        self.operation.fail(error)
        self.assertIs(error, self.operation.exception())
        with self.assertRaises(ServiceUnavailable):
            self.operation.result()
        self.assertIs(OperationState.FAILED, self.operation.state)

    def test_waiting_too_short_is_a_timeout_and_no_outcome(self):
        with self.assertRaises(TimeoutError):
            self.operation.result(0.01)
        self.assertFalse(self.operation.done())

    def test_a_waiting_thread_is_woken(self):
        got = []
        threads = [
            threading.Thread(target=lambda: got.append(self.operation.result(5))) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        self.operation.resolve('x')
        for thread in threads:
            thread.join(5)
        self.assertEqual(['x'] * 3, got)


class Cancelling(OperationTest):
    def test_what_never_left_the_queue_was_not_applied(self):
        self.assertTrue(self.operation.cancel())
        self.assertTrue(self.operation.cancelled())
        self.assertIs(Outcome.NOT_APPLIED, self.operation.exception().outcome)

    def test_what_was_under_way_may_have_been_applied(self):
        self.operation.state = OperationState.RUNNING
        self.assertTrue(self.operation.running())
        self.operation.cancel()
        self.assertIs(Outcome.UNKNOWN, self.operation.exception().outcome)

    def test_what_is_done_cannot_be_cancelled(self):
        self.operation.resolve(1)
        self.assertFalse(self.operation.cancel())
        self.assertFalse(self.operation.cancelled())


class Callbacks(OperationTest):
    def test_they_are_called_once_each_with_the_operation(self):
        heard = []
        self.operation.add_done_callback(heard.append)
        self.operation.add_done_callback(heard.append)
        self.operation.resolve(1)
        self.operation.add_done_callback(heard.append)
        self.assertEqual([self.operation] * 3, heard)

    def test_one_that_raises_is_logged_and_harms_nobody(self):
        heard = []
        self.operation.add_done_callback(lambda _: 1 / 0)
        self.operation.add_done_callback(heard.append)
        with self.assertLogs('kiln.wrappers.operation', 'ERROR'):
            self.operation.resolve(1)
        self.assertEqual([self.operation], heard)


class Awaiting(OperationTest):
    def test_a_coroutine_gets_the_result_or_the_error(self):
        failed = Operation('get', backend='east')

        async def main():
            threading.Timer(0.01, self.operation.resolve, [7]).start()
            threading.Timer(0.01, failed.fail, [ServiceUnavailable('gone')]).start()
            self.assertEqual(7, await self.operation)
            with self.assertRaises(ServiceUnavailable):
                await failed
            return await self.operation

        self.assertEqual(7, asyncio.run(main()))

    def test_cancelling_the_task_leaves_the_operation_alone(self):
        async def main():
            waiting = asyncio.create_task(self.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting

        asyncio.run(main())
        self.assertFalse(self.operation.done())
        # Its loop is closed by now; that must not reach who gives the result.
        self.assertTrue(self.operation.resolve(1))

    async def wait(self):
        return await self.operation


class TheStory(OperationTest):
    def test_events_are_told_in_order_with_their_time(self):
        self.operation.note('accepted', 'id-1')
        self.clock.advance(5)
        self.operation.note('active')
        first, second = self.operation.events
        self.assertEqual(('accepted', 'id-1'), (first.name, first.detail))
        self.assertEqual(5, second.at - first.at)

    def test_a_long_story_loses_its_middle_and_never_its_ends(self):
        for i in range(MAX_EVENTS * 3):
            self.operation.note(str(i))
        self.assertEqual(MAX_EVENTS, len(self.operation.events))
        self.assertEqual('0', self.operation.events[0].name)
        self.assertEqual(str(MAX_EVENTS * 3 - 1), self.operation.events[-1].name)

    def test_repr_names_kind_subject_and_state(self):
        self.assertEqual('<Operation build a queued>', repr(self.operation))


class OverARestart(OperationTest):
    def test_it_is_plain_data_and_comes_back_without_an_outcome(self):
        operation = Operation(
            'build', backend='east', subject='a', build_key='k', clock=self.clock,
            deadline=Deadline.after(60, self.clock), priority=Priority.HIGH,
        )  # fmt: skip
        operation.amphora_id = 'id-1'
        operation.note('accepted', 'id-1')
        saved = json.loads(json.dumps(operation.to_dict()))
        self.clock.advance(10)
        again = Operation.from_dict(saved, clock=self.clock)
        self.assertFalse(again.done())
        for name in ('id', 'kind', 'backend', 'subject', 'build_key', 'amphora_id', 'priority'):
            self.assertEqual(getattr(operation, name), getattr(again, name), name)
        self.assertEqual(operation.events, again.events)
        self.assertEqual(50, again.deadline.remaining_s())

    def test_its_error_is_saved_as_data(self):
        self.operation.fail(ServiceUnavailable('gone', retry_after=3))
        saved = self.operation.to_dict()
        self.assertEqual(
            ('service_unavailable', 3), (saved['error']['code'], saved['error']['retry_after'])
        )
        self.assertIsNone(saved['deadline'])

    def test_every_operation_has_its_own_id_and_keeps_it(self):
        other = Operation('build', backend='east')
        self.assertNotEqual(self.operation.id, other.id)
        self.assertEqual(other.id, other.id)


class CancelledErrors(OperationTest):
    def test_a_cancelled_error_from_elsewhere_counts_as_cancelled(self):
        self.operation.fail(OperationCancelled('closed'))
        self.assertTrue(self.operation.cancelled())
