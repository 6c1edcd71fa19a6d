import asyncio
import concurrent.futures
import itertools
import json
import pickle
import pydoc
import queue
import rlcompleter
import signal
import threading
import unittest

from kiln.clock import Deadline
from kiln.exceptions import (
    AmphoraComputeError,
    OperationCancelled,
    Outcome,
    QuotaExceeded,
    RateLimited,
)
from kiln.models import Resource
from kiln.testing.clock import VirtualClock
from kiln.wrappers.operations.caller_threads import CallerThreads
from kiln.wrappers.operations.errand import MAX_EVENTS, Errand
from kiln.wrappers.operations.operation import Operation, OperationState, Priority


def operation(kind='get', **facts):
    clock = facts.pop('clock', None) or VirtualClock()
    return Errand(kind, backend='east', clock=clock, **{'subject': 'id-1', **facts})


#: Anything else that is public on an operation would be called by callers.
FACE = {
    'add_done_callback', 'amphora_id', 'arguments', 'attempt', 'backend', 'build_key', 'cancel',
    'cancelled', 'deadline', 'done', 'events', 'exception', 'future', 'goal', 'id', 'kind',
    'priority', 'result', 'running', 'state', 'subject', 'to_dict',
}  # fmt: skip


class Face(unittest.TestCase):
    def test_only_callers_members_are_public(self):
        self.assertEqual(FACE, {name for name in dir(Operation) if not name.startswith('_')})

    def test_dir_of_an_errand_shows_no_more(self):
        self.assertEqual(dir(Operation), dir(operation()))
        self.assertEqual(dir(Operation), dir(Errand))

    def test_a_shell_completes_the_names_of_an_errand_with_these(self):
        completer = rlcompleter.Completer({'op': operation()})
        words = itertools.takewhile(bool, (completer.complete('op.', n) for n in range(100)))
        self.assertEqual(FACE, {word.removeprefix('op.').rstrip('()') for word in words})

    def test_help_on_an_errand_shows_nothing_else(self):
        reported = pydoc.render_doc(operation(), renderer=pydoc.plaintext)
        self.assertIn('add_done_callback(', reported)
        self.assertNotIn('call_out(', reported)

    def test_an_errand_uses_no_more_memory(self):
        self.assertEqual((), Errand.__slots__)
        self.assertFalse(hasattr(operation(), '__dict__'))


class Outcomes(unittest.TestCase):
    def test_the_first_outcome_wins(self):
        op = operation()
        self.assertTrue(op.resolve('first'))
        self.assertFalse(op.resolve('second'))
        self.assertFalse(op.fail(QuotaExceeded('late')))
        self.assertFalse(op.cancel())
        self.assertEqual(op.result(), 'first')
        self.assertIs(op.state, OperationState.SUCCEEDED)

    def test_none_is_a_valid_result(self):
        op = operation()
        op.resolve(None)
        self.assertTrue(op.done())
        self.assertIsNone(op.result())

    def test_a_failure_is_raised_and_returned(self):
        op, error = operation(), QuotaExceeded('none left')
        op.fail(error)
        self.assertIs(op.exception(), error)
        self.assertIs(op.state, OperationState.FAILED)
        with self.assertRaises(QuotaExceeded):
            op.result()

    def test_waiting_ends_after_the_timeout(self):
        with self.assertRaisesRegex(TimeoutError, 'get id-1 queued> is not done'):
            operation().result(timeout=0.01)

    def test_several_threads_can_wait_at_once(self):
        op, results = operation(), []
        threads = [threading.Thread(target=lambda: results.append(op.result(120))) for _ in '123']
        for thread in threads:
            thread.start()
        op.resolve(7)
        for thread in threads:
            thread.join(120)
        self.assertEqual(results, [7, 7, 7])

    def test_a_signal_received_by_another_thread_ends_the_main_threads_wait(self):
        def raise_error(*_):
            raise InterruptedError('as the handler says')

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, raise_error))
        over = threading.Event()

        def other():
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            over.wait()

        for timeout in (None, 100):
            over.clear()
            op = operation()
            thread = threading.Timer(0.05, other)
            thread.start()
            with self.assertRaises(InterruptedError):
                op.result(timeout)
            over.set()
            thread.join()

    def test_a_finished_operation_keeps_its_state(self):
        op = operation()
        self.assertTrue(op.enter(OperationState.RUNNING))
        self.assertTrue(op.running())
        op.cancel()
        self.assertFalse(op.enter(OperationState.WAITING))
        self.assertTrue(op.cancelled())

    def test_it_records_when_a_thread_first_began(self):
        clock = VirtualClock()
        op = operation(clock=clock)
        self.assertIsNone(op.began_at)
        first = clock.monotonic()
        for state in (OperationState.RUNNING, OperationState.WAITING, OperationState.RUNNING):
            op.enter(state)
            self.assertEqual(first, op.began_at)
            clock.advance(1.0)

    def test_each_operation_has_a_unique_id(self):
        self.assertEqual(len({operation().id for _ in range(100)}), 100)
        op = operation()
        self.assertEqual(op.id, op.id)


class Cancelling(unittest.TestCase):
    def cancelled(self, *states, **facts):
        op = operation(**facts)
        for state in states:
            op.enter(state)
        self.assertTrue(op.cancel())
        with self.assertRaises(OperationCancelled) as raised:
            op.result()
        return raised.exception

    def test_an_operation_cancelled_in_the_queue_was_never_sent(self):
        error = self.cancelled()
        self.assertIs(error.outcome, Outcome.NOT_APPLIED)
        self.assertIn('never sent', str(error))

    def test_a_cancelled_call_that_was_sent_can_still_take_effect(self):
        error = self.cancelled(OperationState.RUNNING)
        self.assertIs(error.outcome, Outcome.UNKNOWN)
        self.assertIn('can still happen', str(error))

    def test_a_cancelled_build_is_removed(self):
        error = self.cancelled(OperationState.WAITING, kind='build', build_key='k')
        self.assertIn('removed', str(error))
        self.assertEqual(error.build_key, 'k')


class Callbacks(unittest.TestCase):
    def test_callbacks_are_called_once_with_the_operation(self):
        op, heard = operation(), []
        op.add_done_callback(heard.append)
        op.add_done_callback(heard.append)
        op.resolve(1)
        op.add_done_callback(heard.append)
        self.assertEqual(heard, [op, op, op])

    def test_a_callback_that_raises_is_logged_and_harms_no_other(self):
        op, heard = operation(), []
        op.add_done_callback(lambda _: 1 / 0)
        op.add_done_callback(heard.append)
        with self.assertLogs('kiln.wrappers.operations.promise') as logs:
            op.resolve(1)
        self.assertEqual(heard, [op])
        self.assertIn('get id-1', logs.output[0])


class Awaiting(unittest.TestCase):
    def test_a_coroutine_gets_the_result_from_another_thread(self):
        op = operation()

        async def wait():
            threading.Timer(0.01, op.resolve, ['done']).start()
            return await op

        self.assertEqual(asyncio.run(wait()), 'done')

    def test_several_loops_can_wait_for_one_operation(self):
        op, results, waiting = operation(), [], threading.Barrier(3)

        async def wait():
            waiting.wait(120)
            return await op

        threads = [
            threading.Thread(target=lambda: results.append(asyncio.run(wait()))) for _ in '12'
        ]
        for thread in threads:
            thread.start()
        waiting.wait(120)
        op.resolve('both')
        for thread in threads:
            thread.join(120)
        self.assertEqual(results, ['both', 'both'])

    def test_the_error_is_raised_in_the_coroutine(self):
        async def wait():
            op = operation()
            op.fail(QuotaExceeded('none left'))
            await op

        with self.assertRaises(QuotaExceeded):
            asyncio.run(wait())

    def test_a_cancelled_wait_leaves_the_operation_and_no_callback(self):
        op = operation()

        async def wait():
            await asyncio.wait_for(op, 0.01)

        with self.assertRaises(TimeoutError):
            asyncio.run(wait())
        self.assertFalse(op.done())
        self.assertFalse(op._callbacks)
        self.assertTrue(op.resolve(1))

    def test_a_loop_that_was_closed_meanwhile_is_ignored(self):
        op = operation()
        loop = asyncio.new_event_loop()

        async def wait():
            await op

        task = loop.create_task(wait())
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        with self.assertNoLogs('kiln.wrappers.operations.operation'):
            op.resolve(1)
        # Nothing runs it any longer; close it, or asyncio complains at exit.
        task.get_coro().close()
        task._log_destroy_pending = False


class StandardFutures(unittest.TestCase):
    def test_futures_end_as_their_operations_do(self):
        good, bad = operation(), operation()
        futures = good.future(), bad.future()
        self.assertEqual(set(futures), concurrent.futures.wait(futures, timeout=0).not_done)
        good.resolve(7)
        bad.fail(QuotaExceeded('none left'))
        self.assertEqual(set(futures), concurrent.futures.wait(futures, timeout=60).done)
        self.assertEqual(7, futures[0].result(0))
        self.assertIs(bad.exception(), futures[1].exception(0))

    def test_the_future_of_a_finished_operation_is_done_at_once(self):
        # The callback thread is not used, because it can be waiting for this future.
        callers = CallerThreads('busy', 0)
        good, bad = operation(callers=callers), operation(callers=callers)
        good.resolve(7)
        bad.fail(QuotaExceeded('none left'))
        self.assertEqual(7, good.future().result(0))
        self.assertIs(bad.exception(), bad.future().exception(0))

    def test_a_callback_can_wait_for_the_future_of_its_own_operation(self):
        callers = CallerThreads('one', 1)
        self.addCleanup(callers.close, 0)
        op, heard = operation(callers=callers), queue.Queue()
        op.add_done_callback(lambda done: heard.put(done.future().result(60)))
        op.resolve(7)
        self.assertEqual(7, heard.get(timeout=120))

    def test_as_completed_yields_the_first_finished_future(self):
        first, second = operation(), operation()
        futures = {first.future(): 'first', second.future(): 'second'}
        second.resolve(1)
        self.assertEqual('second', futures[next(concurrent.futures.as_completed(futures, 60))])

    def test_cancelling_a_future_cancels_its_operation(self):
        op = operation()
        future = op.future()
        self.assertTrue(future.cancel())
        self.assertTrue(op.cancelled())
        self.assertEqual({future}, concurrent.futures.wait([future], timeout=60).done)

    def test_wait_for_on_a_wrapped_future_cancels_its_operation(self):
        async def main():
            wrapped, awaited = operation(), operation()
            for one in asyncio.wrap_future(wrapped.future()), awaited:
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(one, 0.01)
            return wrapped.cancelled(), awaited.cancelled()

        self.assertEqual((True, False), asyncio.run(main()))

    def test_an_event_loop_wraps_them_and_makes_tasks_of_operations(self):
        async def main():
            wrapped, tasked = operation(), operation()
            for op in (wrapped, tasked):
                threading.Timer(0.01, op.resolve, ['done']).start()
            done, _ = await asyncio.wait([asyncio.ensure_future(tasked)], timeout=60)
            return await asyncio.wrap_future(wrapped.future()), done.pop().result()

        self.assertEqual(('done', 'done'), asyncio.run(main()))


class Story(unittest.TestCase):
    def test_events_have_a_time_and_a_text(self):
        clock = VirtualClock(epoch=100)
        op = operation(clock=clock)
        clock.advance(5)
        op.note('adopted', 'id-9')
        (event,) = op.events
        self.assertEqual((event.at, event.name, event.detail), (105, 'adopted', 'id-9'))

    def test_a_long_list_of_events_keeps_its_beginning_and_its_end(self):
        op = operation()
        for number in range(MAX_EVENTS * 2):
            op.note(str(number))
        names = [event.name for event in op.events]
        self.assertEqual(len(names), MAX_EVENTS)
        self.assertEqual((names[0], names[-1]), ('0', str(MAX_EVENTS * 2 - 1)))


class Saving(unittest.TestCase):
    def again(self, op, clock=None):
        saved = json.loads(json.dumps(op.to_dict()))
        return Errand.from_dict(saved, clock=clock or VirtualClock())

    def test_an_unfinished_operation_is_restored_without_an_outcome(self):
        clock = VirtualClock(epoch=1000)
        op = operation(
            'build', clock=clock, build_key='k', deadline=Deadline.after(60, clock),
            priority=Priority.HIGH,
        )  # fmt: skip
        op.note('lost', 'no answer')
        later = VirtualClock(epoch=1020)
        again = self.again(op, later)
        self.assertFalse(again.done())
        self.assertEqual(again.deadline.remaining_s(), 40)
        for fact in ('id', 'kind', 'backend', 'subject', 'build_key', 'priority', 'events'):
            self.assertEqual(getattr(again, fact), getattr(op, fact), fact)

    def test_arguments_are_restored_as_plain_data(self):
        op = operation('statuses')
        op.arguments = (('a', 'b'), 3, Resource(kind='port', id='p', owner='kiln'))
        ids, number, resource = self.again(op).arguments
        self.assertEqual((ids, number, resource['id']), (['a', 'b'], 3, 'p'))

    def test_a_finished_build_is_restored_with_its_id(self):
        op = operation('build', build_key='k')
        op.amphora_id = 'id-7'
        op.resolve('id-7')
        self.assertEqual(self.again(op).result(), 'id-7')

    def test_the_result_of_any_other_call_is_not_saved(self):
        op = operation('console_log')
        op.resolve('the password is swordfish')
        self.assertNotIn('swordfish', json.dumps(op.to_dict()))
        self.assertIsNone(self.again(op).result())

    def test_a_failed_operation_is_restored_with_its_error(self):
        op = operation()
        op.fail(RateLimited('slow down', retry_after=7, amphora_id='id-1'))
        error = self.again(op).exception()
        self.assertIsInstance(error, RateLimited)
        self.assertEqual(error.to_dict(), op.exception().to_dict())

    def test_a_cancelled_operation_is_restored_as_cancelled(self):
        op = operation()
        op.cancel()
        self.assertTrue(self.again(op).cancelled())

    def test_a_foreign_error_is_restored_as_the_root_class(self):
        op = operation()
        op.fail(ValueError('odd'))
        error = self.again(op).exception()
        self.assertIs(type(error), AmphoraComputeError)
        self.assertIn('ValueError: odd', str(error))

    def test_an_error_of_a_missing_package_is_restored_as_the_root_class(self):
        saved = QuotaExceeded('none').to_dict() | {'code': 'acme_quota'}
        error = AmphoraComputeError.from_dict(saved)
        self.assertIs(type(error), AmphoraComputeError)
        self.assertIs(error.outcome, Outcome.NOT_APPLIED)
        self.assertEqual(pickle.loads(pickle.dumps(error)).to_dict(), error.to_dict())
