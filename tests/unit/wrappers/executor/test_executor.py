"""Executor: admission, contexts and notifications."""

import contextvars
import random
import signal
import threading
import time
import traceback

import futurist
from oslo_context import context as oslo_context

from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraComputeError,
    BuildOutcomeUnknown,
    CircuitOpenError,
    OperationRejected,
    Outcome,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.fairness.turns import on_behalf_of
from kiln.telemetry.events import Listener
from kiln.telemetry.frames import current_frames
from kiln.wrappers.executor.attempts import Backoff, CallPlan
from kiln.wrappers.executor.build_attempts import BuildPlan
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.operations.operation import OperationState, Priority
from tests.unit.wrappers.scripted import StageCase, request


def within_a_wait(thread_id):
    """Return True if a thread waits for an operation."""
    frame = current_frames()[thread_id]
    stack = [entry.name for entry in traceback.extract_stack(frame)]
    return stack[-1] == 'wait' and 'exception' in stack


class Admitting(StageCase):
    def test_submit_returns_an_operation(self):
        stage = self.stage()
        build = stage.executor.submit(Call.BUILD, request())
        self.assertEqual(build.result(), 'id-1')
        self.assertEqual((build.kind, build.build_key), ('build', 'key-1'))
        self.assertEqual(build.amphora_id, 'id-1')
        found = stage.executor.submit(Call.GET, 'id-1')
        self.assertEqual(found.result().id, 'id-1')
        self.assertEqual((found.subject, found.amphora_id), ('id-1', 'id-1'))
        self.assertTrue(stage.idle())

    def test_as_a_driver_its_methods_block(self):
        stage = self.stage(threads=True)
        self.assertEqual(stage.executor.build(build_key='k'), 'id-1')
        stage.executor.delete('id-1')
        self.assertEqual(stage.driver.instances, {})

    def test_an_open_circuit_and_a_missing_ability_are_refused_at_once(self):
        stage = self.stage()
        stage.driver.refusals[Call.GET] = CircuitOpenError('open', retry_after=3)
        with self.assertRaises(CircuitOpenError):
            stage.executor.submit(Call.GET, 'id-1')
        with self.assertRaises(UnsupportedOperation):
            stage.executor.submit(Call.REBOOT, 'id-1', False)
        self.assertEqual(stage.driver.sent, [])
        self.assertTrue(stage.idle())

    def test_a_full_queue_rejects_at_once_until_it_has_room(self):
        settings = ExecutorSettings(max_workers=3, max_queue=2)
        stage = self.stage(threads=True, settings=settings)
        gate, inside = self.hung(stage)
        running = stage.executor.submit(Call.GET, 'a')
        self.arrive(inside)
        waiting = [stage.executor.submit(Call.GET, name) for name in 'bc']
        # At once: nothing can make room in between.
        with self.assertRaisesRegex(OperationRejected, '2 operations wait') as raised:
            stage.executor.submit(Call.GET, 'd')
        self.assertTrue(raised.exception.retryable)
        self.assertTrue(waiting[0].cancel())
        self.assertFalse(stage.executor.submit(Call.GET, 'd').done())
        gate.set()
        self.assertIsInstance(running.exception(120), AmphoraComputeError)
        stage.until(stage.idle)

    def test_a_full_queue_rejects_those_who_filled_it(self):
        settings = ExecutorSettings(max_workers=3, max_queue=4)
        stage = self.stage(threads=True, settings=settings)
        gate, inside = self.hung(stage)
        with on_behalf_of('huge'):
            running = stage.executor.submit(Call.GET, 'a')
            self.arrive(inside)
            waiting = [stage.executor.submit(Call.GET, name) for name in 'bcde']
            with self.assertRaises(OperationRejected):
                stage.executor.submit(Call.GET, 'f')
        with on_behalf_of('small'):
            waiting += [stage.executor.submit(Call.GET, name) for name in 'gh']
            with self.assertRaises(OperationRejected):
                stage.executor.submit(Call.GET, 'i')
        gate.set()
        for operation in (running, *waiting):
            operation.exception(120)
        stage.until(stage.idle)

    def test_an_operation_that_waits_for_a_retry_counts_in_the_queue(self):
        settings = ExecutorSettings(max_workers=3, max_queue=1)
        stage = self.stage(settings=settings, get=['refuse'])
        waiting = stage.executor.submit(Call.GET, 'a')
        self.assertIs(waiting.state, OperationState.WAITING)
        with self.assertRaises(OperationRejected):
            stage.executor.submit(Call.GET, 'b')
        stage.settle(waiting)
        stage.executor.submit(Call.GET, 'b')

    def test_urgent_operations_go_first_and_others_in_order(self):
        stage = self.stage(threads=True, settings=ExecutorSettings(max_workers=3))
        gate, inside = self.hung(stage)
        stage.executor.submit(Call.GET, 'hangs')
        self.arrive(inside)
        operations = [
            stage.executor.submit(Call.GET, name, priority=priority)
            for name, priority in (
                ('low', Priority.LOW), ('one', Priority.NORMAL), ('two', Priority.NORMAL),
                ('high', Priority.HIGH),
            )
        ]  # fmt: skip
        gate.set()
        for operation in operations:
            operation.exception(120)
        self.assertEqual(
            [subject for _, subject in stage.driver.sent], ['hangs', 'high', 'one', 'two', 'low']
        )

    def test_hanging_builds_leave_threads_for_reads_and_deletes(self):
        settings = ExecutorSettings(max_workers=4, build_workers=4)
        stage = self.stage(threads=True, settings=settings)
        _, inside = self.hung(stage, 'build', 9)
        for number in range(9):
            stage.executor.submit(Call.BUILD, request(f'k{number}'))
        self.arrive(inside, 2)
        self.assertIsInstance(
            stage.executor.submit(Call.GET, 'id-1').exception(120), AmphoraComputeError
        )
        self.assertIsNone(stage.executor.submit(Call.DELETE, 'id-1').result(120))
        self.assertFalse(inside.acquire(blocking=False))

    def test_an_operation_cancelled_in_the_queue_is_never_sent(self):
        stage = self.stage(threads=True, settings=ExecutorSettings(max_workers=3))
        gate, inside = self.hung(stage)
        stage.executor.submit(Call.GET, 'hangs')
        self.arrive(inside)
        operation = stage.executor.submit(Call.GET, 'queued')
        self.assertTrue(operation.cancel())
        self.assertIs(operation.exception().outcome, Outcome.NOT_APPLIED)
        gate.set()
        stage.until(stage.idle)
        self.assertEqual(stage.driver.sent, [('get', 'hangs')])

    def test_an_interrupted_caller_cancels_its_operation(self):
        stage = self.stage(threads=True)
        gate, inside = self.hung(stage, 'build')
        # A process started in the background of a shell ignores the signal.
        self.addCleanup(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        waiter = threading.get_ident()

        def interrupt():
            inside.acquire(timeout=120)
            while not within_a_wait(waiter):
                time.sleep(0.001)
            signal.pthread_kill(waiter, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        with self.assertRaises(KeyboardInterrupt):
            thread.start()
            stage.executor.build(build_key='k')
        thread.join()
        gate.set()
        stage.until(stage.idle)
        self.assertEqual(
            [hook for hook, _ in stage.driver.sent][:3], ['build', 'find_build', 'delete']
        )
        self.assertEqual(stage.driver.instances, {})

    def test_a_call_from_a_worker_does_not_wait_for_another_worker(self):
        stage = self.stage(threads=True, settings=ExecutorSettings(max_workers=3))
        stage.driver.instances['id-1'] = 'found'
        found = []
        deeper = [lambda: found.append(stage.executor.perform(Call.GET, 'id-1'))] * 9
        stage.driver.scripts['suspend'] = deeper
        operations = [stage.executor.submit(Call.SUSPEND, 'id-1') for _ in range(9)]
        self.assertEqual([operation.result(120) for operation in operations], [None] * 9)
        self.assertEqual(found, ['found'] * 9)

    def test_an_operation_with_once_is_not_repeated(self):
        stage = self.stage(get=['refuse'])
        operation = stage.executor.submit(Call.GET, 'id-1', once=True)
        self.assertIsInstance(operation.exception(0), ServiceUnavailable)
        self.assertEqual(stage.driver.sent, [('get', 'id-1')])

    def test_a_thread_that_cannot_start_is_tried_again_later(self):
        class Poor(futurist.SynchronousExecutor):
            poor = True

            def submit(self, *args, **kwargs):
                if self.poor:
                    self.poor = False
                    raise RuntimeError("can't start new thread")
                return super().submit(*args, **kwargs)

        stage = self.stage(pool=Poor())
        with self.assertLogs('kiln.wrappers.executor.workers', 'ERROR'):
            operation = stage.executor.submit(Call.LIST, 'kiln')
        self.assertEqual(stage.settle(operation).result(), ())
        self.assertTrue(stage.idle())

    def test_at_interpreter_exit_the_error_states_what_might_have_happened(self):
        backoff = Backoff(first_s=1, max_s=1, rng=random.Random(1))

        def plan(kind, *args):
            return kind(Errand('build', backend='east', build_key='k'), *args, backoff)

        unsent = plan(BuildPlan, request()).no_thread_error()
        self.assertIsInstance(unsent, OperationRejected)
        self.assertIs(Outcome.NOT_APPLIED, unsent.outcome)
        # It was sent by this process, or by the process that saved it.
        sent = plan(CallPlan, Call.LIST, ('kiln',))
        sent.failed(ServiceUnavailable('no answer'))
        self.assertIs(sent.last_error, sent.no_thread_error())
        self.assertIsInstance(plan(BuildPlan, None).no_thread_error(), BuildOutcomeUnknown)


WORD = contextvars.ContextVar('word', default='unset')


class Contexts(StageCase):
    def test_the_callers_context_reaches_the_driver_in_every_attempt(self):
        stage, seen = self.stage(threads=True), []

        def look():
            seen.append((WORD.get(), oslo_context.get_current()))
            if len(seen) == 1:
                raise ServiceUnavailable('once more')

        stage.driver.scripts['list'] = [look, look]
        mine = oslo_context.RequestContext(overwrite=True)
        reset = WORD.set('mine')
        operation = stage.executor.submit(Call.LIST, 'kiln')
        WORD.reset(reset)
        oslo_context.RequestContext(overwrite=True)
        stage.settle(operation)
        self.assertEqual(seen, [('mine', mine), ('mine', mine)])

    def test_a_worker_drops_the_request_context_of_the_previous_operation(self):
        stage, seen = self.stage(threads=True), []
        look = [lambda: seen.append(oslo_context.get_current())]
        stage.driver.scripts['list'] = look * 2
        theirs = oslo_context.RequestContext(overwrite=True)
        stage.executor.submit(Call.LIST, 'kiln').result(120)
        thread = threading.Thread(
            target=lambda: stage.executor.submit(Call.LIST, 'kiln').result(120)
        )
        # A new thread has no request.
        thread.start()
        thread.join(120)
        self.assertIs(seen[0], theirs)
        self.assertTrue(seen[1] is None or seen[1].request_id != theirs.request_id)

    def test_without_threads_the_caller_keeps_its_own_context(self):
        stage = self.stage()
        mine = oslo_context.RequestContext(overwrite=True)
        stage.driver.scripts['list'] = [lambda: oslo_context.RequestContext(overwrite=True)]
        stage.executor.submit(Call.LIST, 'kiln')
        self.assertIs(oslo_context.get_current(), mine)


class Telling(StageCase):
    def test_listeners_are_notified_of_the_queue(self):
        heard = []

        class Ear(Listener):
            def queue_changed(self, backend, waiting, running):
                heard.append((backend, waiting, running))

        stage = self.stage(threads=True, listener=Ear(), settings=ExecutorSettings(max_workers=3))
        gate, inside = self.hung(stage)
        operations = [stage.executor.submit(Call.GET, name) for name in 'ab']
        self.arrive(inside)
        self.assertIn(('east', 1, 1), heard)
        gate.set()
        for operation in operations:
            operation.exception(120)
        stage.until(lambda: heard[-1] == ('east', 0, 0))

    def test_a_listener_that_raises_harms_no_operation(self):
        class Bad(Listener):
            def queue_changed(self, backend, waiting, running):
                raise ValueError('bad listener')

        stage = self.stage(listener=Bad())
        with self.assertLogs('kiln.telemetry.events'):
            self.assertEqual(stage.executor.submit(Call.LIST, 'kiln').result(0), ())
