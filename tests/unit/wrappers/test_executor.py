"""The executor: nobody waits, nothing is lost, no slot leaks."""

import contextvars
import threading
import time
import unittest

import futurist

from kiln.clock import current_deadline
from kiln.compute_drivers import validation
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    BuildOutcomeUnknown,
    ConfigurationError,
    DeleteTimeout,
    InstanceNotFoundError,
    OperationCancelled,
    OperationRejected,
    OperationTimeout,
    Outcome,
    QuotaExceeded,
    RateLimited,
    ServiceTimeout,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.listeners import Listener
from kiln.models import Amphora, Limits, State
from kiln.testing.clock import VirtualClock
from kiln.wrappers.executor import ExecutorDriver
from kiln.wrappers.executor_settings import ExecutorSettings
from kiln.wrappers.operation import Operation, OperationState, Priority
from kiln.wrappers.scheduler import Scheduler


class ScriptedDriver(AmphoraComputeDriver):
    """Does what its script says, call by call; then what a good driver does.

    A step is an error to raise, or a function that gets the call's name.
    """

    limits = Limits()

    def __init__(self, clock):
        self.clock = clock
        self.there = {}
        self.asked = []
        self.script = {}
        self.bucket_empty_until = 0.0

    def perform(self, call, *args):
        self.asked.append(call)
        steps = self.script.get(call)
        step = steps.pop(0) if steps else None
        after = None
        if isinstance(step, tuple):
            step, after = None, step[0]
        if callable(step) and not isinstance(step, type):
            step(call)
        elif step is not None:
            raise step
        result = super().perform(call, *args)
        if after is not None:
            raise after
        return result

    def refusal(self, call):
        wait_s = self.bucket_empty_until - self.clock.monotonic()
        return RateLimited('slower', retry_after=wait_s) if wait_s > 0 else super().refusal(call)

    def _build(self, request):
        amphora_id = f'id-{request.build_key}'
        self.there.setdefault(amphora_id, request.build_key)
        return amphora_id

    def _delete(self, amphora_id):
        if self.there.pop(amphora_id, None) is None:
            raise InstanceNotFoundError('gone')

    def _get(self, amphora_id):
        if amphora_id not in self.there:
            raise InstanceNotFoundError('none')
        return Amphora(
            id=amphora_id, name='a', state=State.ACTIVE, build_key=self.there[amphora_id]
        )

    def _list(self, owner):
        return [self._get(amphora_id) for amphora_id in self.there]


class ExecutorTest(unittest.TestCase):
    settings = ExecutorSettings(max_workers=4, max_queue=6)
    pool = None

    def setUp(self):
        self.clock = VirtualClock()
        self.driver = ScriptedDriver(self.clock)
        self.scheduler = Scheduler(clock=self.clock)
        self.addCleanup(self.scheduler.close)
        self.executor = ExecutorDriver(
            self.driver, scheduler=self.scheduler, settings=self.settings, pool=self.pool
        )
        self.addCleanup(self.executor.close, 0.1)
        self.gate = threading.Event()
        self.addCleanup(self.gate.set)

    def request(self, key='k'):
        return validation.build_request(self.driver.limits, owner='kiln', build_key=key)

    def build(self, key='k', **options):
        return self.executor.submit(Call.BUILD, self.request(key), **options)

    def hang(self, _):
        self.gate.wait(10)

    def until(self, holds):
        give_up = time.monotonic() + 10
        while not holds():
            self.assertLess(time.monotonic(), give_up)
            time.sleep(0.001)

    def ended(self, operation):
        self.clock.run_until(operation.done)
        return operation.exception()


class Admitting(ExecutorTest):
    def hold_all_lanes(self):
        self.driver.script = {
            call: [self.hang] * 9 for call in (Call.GET, Call.DELETE, Call.BUILD)
        }
        operations = [
            self.executor.submit(Call.GET, 'x'),
            self.executor.submit(Call.GET, 'x'),
            self.executor.submit(Call.DELETE, 'x'),
            self.build(),
        ]
        self.until(lambda: len(self.driver.asked) == 4)
        return operations

    def test_a_full_queue_rejects_at_once(self):
        self.hold_all_lanes()
        for _ in range(6):
            self.executor.submit(Call.GET, 'x')
        with self.assertRaisesRegex(OperationRejected, '6 operations wait') as caught:
            self.executor.submit(Call.GET, 'x')
        self.assertTrue(caught.exception.retryable)

    def test_a_cancelled_operation_makes_room_and_is_never_sent(self):
        held = self.hold_all_lanes()
        waiting = [self.executor.submit(Call.STATUS, 'x') for _ in range(6)]
        waiting[0].cancel()
        extra = self.executor.submit(Call.STATUS, 'x')
        self.gate.set()
        for operation in (*held, *waiting, extra):
            self.ended(operation)
        self.assertEqual(6, self.driver.asked.count(Call.STATUS))

    def test_the_higher_priority_goes_first(self):
        self.hold_all_lanes()
        low = self.executor.submit(Call.STATUS, 'low', priority=Priority.LOW)
        high = self.executor.submit(Call.STATUS, 'high', priority=Priority.HIGH)
        order = []
        low.add_done_callback(lambda _: order.append('low'))
        high.add_done_callback(lambda _: order.append('high'))
        # One lane alone is let go, so that one after the other is taken.
        self.driver.script[Call.GET] = []
        self.gate.set()
        self.ended(low), self.ended(high)
        self.assertEqual('high', order[0])

    def test_what_the_driver_lacks_is_refused_at_once(self):
        with self.assertRaises(UnsupportedOperation):
            self.executor.submit(Call.SUSPEND, 'x')

    def test_looks_go_on_while_builds_hang(self):
        self.driver.script = {Call.BUILD: [self.hang] * 9}
        for i in range(5):
            self.build(f'k{i}')
        self.assertIsInstance(
            self.ended(self.executor.submit(Call.GET, 'x')), InstanceNotFoundError
        )

    def test_settings_out_of_bounds_are_refused(self):
        for wrong in (
            {'max_workers': 2}, {'max_queue': 0}, {'timeout_s': 0}, {'cleanup_timeout_s': 0},
            {'cleanup_grace_s': -1}, {'first_delay_s': 0}, {'max_delay_s': 0.1},
        ):  # fmt: skip
            with (
                self.subTest(wrong),
                self.assertRaisesRegex(ConfigurationError, next(iter(wrong))),
            ):
                ExecutorSettings(**wrong)


class Retrying(ExecutorTest):
    def test_a_read_is_repeated_until_it_succeeds(self):
        self.driver.there['id'] = 'k'
        self.driver.script = {Call.GET: [ServiceUnavailable('1'), ServiceTimeout('2')]}
        operation = self.executor.submit(Call.GET, 'id')
        self.assertIsNone(self.ended(operation))
        self.assertEqual(3, len(self.driver.asked))
        self.assertEqual(['waits', 'waits'], [event.name for event in operation.events])

    def test_retry_after_is_waited_for(self):
        self.driver.script = {Call.GET: [RateLimited('slower', retry_after=20)]}
        self.ended(self.executor.submit(Call.GET, 'id'))
        self.assertGreaterEqual(self.clock.monotonic(), 20)

    def test_where_the_next_try_would_be_too_late_the_error_is_told_now(self):
        self.driver.script = {Call.GET: [RateLimited('slower', retry_after=90)]}
        operation = self.executor.submit(Call.GET, 'id', timeout_s=60)
        self.until(operation.done)
        self.assertIsInstance(operation.exception(), RateLimited)
        self.assertLess(self.clock.monotonic(), 1)

    def test_a_change_that_may_have_happened_is_not_repeated(self):
        class Suspending(ScriptedDriver):
            def _suspend(self, amphora_id):
                raise ServiceTimeout('no answer')

        driver = Suspending(self.clock)
        executor = ExecutorDriver(driver, scheduler=self.scheduler)
        self.addCleanup(executor.close, 0.1)
        self.assertIsInstance(self.ended(executor.submit(Call.SUSPEND, 'x')), ServiceTimeout)
        self.assertEqual([Call.SUSPEND], driver.asked)

    def test_a_delete_is_repeated_since_twice_is_once(self):
        self.driver.there['id'] = 'k'
        self.driver.script = {Call.DELETE: [(ServiceTimeout('lost'),)]}
        self.assertIsNone(self.ended(self.executor.submit(Call.DELETE, 'id')))
        self.assertEqual(2, len(self.driver.asked))

    def test_an_empty_bucket_holds_the_queue_and_burns_no_attempt(self):
        self.driver.bucket_empty_until = 30.0
        operations = [self.build(f'k{i}') for i in range(3)]
        for operation in operations:
            self.assertIsNone(self.ended(operation))
        self.assertEqual([Call.BUILD] * 3, self.driver.asked)
        self.assertGreaterEqual(self.clock.monotonic(), 30)


class BuildingSafely(ExecutorTest):
    def test_a_lost_build_is_looked_for_and_adopted(self):
        self.driver.script = {Call.BUILD: [(BuildOutcomeUnknown('lost'),)]}
        operation = self.build()
        self.assertIsNone(self.ended(operation))
        self.assertEqual('id-k', operation.result())
        self.assertEqual([Call.BUILD, Call.FIND_BUILD], self.driver.asked)
        self.assertIn('adopted', [event.name for event in operation.events])

    def test_a_build_that_is_certainly_not_there_is_sent_again(self):
        self.driver.script = {Call.BUILD: [BuildOutcomeUnknown('lost')]}
        self.assertIsNone(self.ended(self.build()))
        self.assertEqual([Call.BUILD, Call.FIND_BUILD, Call.BUILD], self.driver.asked)

    def test_a_defect_of_the_driver_may_have_built_too(self):
        self.driver.script = {Call.BUILD: [AmphoraComputeError('defect')]}
        self.ended(self.build())
        self.assertEqual(Call.FIND_BUILD, self.driver.asked[1])

    def test_without_certainty_the_caller_is_told_so_and_the_rest_is_removed(self):
        self.driver.script = {
            Call.BUILD: [(BuildOutcomeUnknown('lost'),)],
            Call.FIND_BUILD: [ServiceUnavailable('down')] * 12,
        }
        operation = self.build(timeout_s=5)
        error = self.ended(operation)
        self.assertIsInstance(error, BuildOutcomeUnknown)
        self.assertEqual('k', error.build_key)
        self.clock.run_until(lambda: not self.driver.there and Call.DELETE in self.driver.asked)

    def test_a_refusal_after_a_lost_attempt_is_not_told_as_certain(self):
        self.driver.script = {Call.BUILD: [BuildOutcomeUnknown('lost'), QuotaExceeded('full')]}
        error = self.ended(self.build())
        self.assertIsInstance(error, BuildOutcomeUnknown)
        self.assertIsInstance(error.__cause__, QuotaExceeded)

    def test_a_plain_refusal_is_told_as_it_is_and_nothing_is_looked_for(self):
        self.driver.script = {Call.BUILD: [QuotaExceeded('full')]}
        self.assertIsInstance(self.ended(self.build()), QuotaExceeded)
        self.assertEqual([Call.BUILD], self.driver.asked)

    def test_a_build_that_comes_after_its_deadline_is_removed(self):
        self.driver.script = {Call.BUILD: [self.hang]}
        operation = self.build(timeout_s=10)
        self.assertIsInstance(self.ended(operation), BuildOutcomeUnknown)
        self.gate.set()
        self.clock.run_until(lambda: Call.DELETE in self.driver.asked and not self.driver.there)

    def test_a_build_cancelled_in_flight_is_removed_when_it_comes(self):
        self.driver.script = {Call.BUILD: [self.hang]}
        operation = self.build()
        self.until(lambda: self.driver.asked)
        operation.cancel()
        self.gate.set()
        self.clock.run_until(lambda: Call.DELETE in self.driver.asked and not self.driver.there)

    def test_a_new_build_of_a_key_waits_until_the_old_one_is_removed(self):
        self.driver.script = {Call.BUILD: [self.hang], Call.DELETE: [ServiceUnavailable('no')] * 3}
        first = self.build()
        self.until(lambda: self.driver.asked)
        first.cancel()
        self.gate.set()
        self.until(lambda: self.executor._discards)
        second = self.build()
        self.assertIsNone(self.ended(second))
        self.assertEqual({'id-k': 'k'}, self.driver.there)
        self.assertGreater(
            self.driver.asked.index(Call.DELETE), self.driver.asked.index(Call.BUILD)
        )
        self.assertEqual(Call.BUILD, self.driver.asked[-1])

    def test_a_removal_that_takes_too_long_is_given_up_loudly(self):
        self.driver.script = {Call.FIND_BUILD: [ServiceUnavailable('down')] * 999}
        with self.assertLogs('kiln.wrappers.discard', 'ERROR') as logs:
            discarded = self.executor.discard_build('k', None)
            self.clock.run_until(discarded.done, step_s=5)
        self.assertIn('orphan sweep', logs.output[0])

    def test_one_removal_serves_all_who_ask_for_it(self):
        self.driver.script = {Call.FIND_BUILD: [self.hang]}
        first = self.executor.discard_build('k', None)
        self.assertIs(first, self.executor.discard_build('k', None))


class Deadlines(ExecutorTest):
    def overdue(self, call, *args):
        self.driver.script = {call: [self.hang]}
        operation = self.executor.submit(call, *args, timeout_s=10)
        self.until(lambda: self.driver.asked)
        return self.ended(operation)

    def test_a_look_that_hangs_is_a_service_timeout(self):
        self.assertIsInstance(self.overdue(Call.GET, 'x'), ServiceTimeout)

    def test_a_delete_that_hangs_may_have_happened(self):
        error = self.overdue(Call.DELETE, 'x')
        self.assertIsInstance(error, DeleteTimeout)
        self.assertIs(Outcome.UNKNOWN, error.outcome)

    def test_what_never_got_a_thread_was_not_applied(self):
        self.driver.script = {Call.BUILD: [self.hang] * 9}
        operations = [self.build(f'k{i}', timeout_s=10 + i) for i in range(4)]
        error = self.ended(operations[-1])
        self.assertIsInstance(error, OperationTimeout)
        self.assertIs(Outcome.NOT_APPLIED, error.outcome)

    def test_a_driver_sees_the_deadline_of_its_call(self):
        seen = []
        self.driver.script = {Call.GET: [lambda _: seen.append(current_deadline())]}
        operation = self.executor.submit(Call.GET, 'x', timeout_s=7)
        self.ended(operation)
        self.assertEqual([operation.deadline], seen)


class Contexts(ExecutorTest):
    def test_context_variables_reach_the_worker(self):
        variable, seen = contextvars.ContextVar('variable'), []
        variable.set('mine')
        self.driver.script = {Call.GET: [lambda _: seen.append(variable.get('none'))]}
        self.ended(self.executor.submit(Call.GET, 'x'))
        self.assertEqual(['mine'], seen)

    def test_the_request_context_of_oslo_reaches_the_worker(self):
        from oslo_context import context

        mine, seen = context.RequestContext(request_id='req-1'), []
        self.addCleanup(setattr, context._request_store, 'context', None)
        self.driver.script = {Call.GET: [lambda _: seen.append(context.get_current())]}
        self.ended(self.executor.submit(Call.GET, 'x'))
        self.assertEqual([mine], seen)

    def test_listeners_hear_of_the_queue(self):
        heard = []

        class Recorder(Listener):
            def queue_changed(self, backend, waiting, running):
                heard.append((waiting, running))

        executor = ExecutorDriver(self.driver, scheduler=self.scheduler, listener=Recorder())
        self.addCleanup(executor.close, 0.1)
        self.ended(executor.submit(Call.GET, 'x'))
        self.assertIn((0, 1), heard)


class Running(ExecutorTest):
    def test_any_function_can_be_run_and_its_error_is_the_operations(self):
        self.assertEqual(4, self.executor.run(lambda: 2 + 2).result(5))
        self.assertIsInstance(self.ended(self.executor.run(lambda: 1 / 0)), ZeroDivisionError)

    def test_a_task_that_exits_ends_neither_thread_nor_pool(self):
        def leave(_=None):
            raise SystemExit

        for _ in range(8):
            self.assertIsInstance(self.ended(self.executor.run(leave)), SystemExit)
        self.assertEqual(1, self.executor.run(lambda: 1).result(5))

    def test_as_a_plain_driver_it_blocks_until_done(self):
        self.assertEqual('id-k', self.executor.build(build_key='k'))
        self.assertEqual('id-k', self.executor.get_amphora(amphora_id='id-k').id)
        self.executor.delete('id-k')


class WithoutThreads(ExecutorTest):
    def setUp(self):
        self.pool = futurist.SynchronousExecutor()
        super().setUp()

    def test_a_synchronous_pool_serves_too(self):
        operation = self.build()
        self.assertTrue(operation.done())
        self.assertEqual('id-k', operation.result())


class Recovering(ExecutorTest):
    def saved(self, kind, **facts):
        operation = Operation(kind, backend='compute', clock=self.clock, **facts)
        return operation.to_dict()

    def test_a_build_that_exists_is_taken_up_by_its_key(self):
        self.driver.there['id-k'] = 'k'
        operation = self.executor.recover(self.saved('build', build_key='k', subject='a'))
        self.assertIsNone(self.ended(operation))
        self.assertEqual('id-k', operation.result())

    def test_a_build_that_does_not_exist_is_not_sent_again(self):
        error = self.ended(self.executor.recover(self.saved('build', build_key='k', subject='a')))
        self.assertIsInstance(error, AmphoraBuildError)
        self.assertIs(Outcome.NOT_APPLIED, error.outcome)
        self.assertIn("build_key='k'", str(error))
        self.assertEqual([Call.FIND_BUILD], self.driver.asked)

    def test_a_build_that_cannot_be_looked_for_says_why(self):
        self.driver.script = {Call.FIND_BUILD: [QuotaExceeded('odd')]}
        error = self.ended(self.executor.recover(self.saved('build', build_key='k', subject='a')))
        self.assertIsInstance(error, QuotaExceeded)

    def test_a_delete_is_sent_again(self):
        self.driver.there['id-k'] = 'k'
        self.assertIsNone(self.ended(self.executor.recover(self.saved('delete', subject='id-k'))))
        self.assertEqual({}, self.driver.there)

    def test_what_is_repeated_may_fail_again(self):
        error = self.ended(self.executor.recover(self.saved('get', subject='nobody')))
        self.assertIsInstance(error, InstanceNotFoundError)

    def test_of_anything_else_the_outcome_is_unknown(self):
        error = self.ended(self.executor.recover(self.saved('suspend', subject='id-k')))
        self.assertIs(Outcome.UNKNOWN, error.outcome)
        self.assertEqual([], self.driver.asked)


class Closing(ExecutorTest):
    def test_every_operation_is_resolved_and_later_ones_are_rejected(self):
        self.driver.script = {Call.BUILD: [self.hang] * 9, Call.GET: [ServiceUnavailable('x')] * 9}
        operations = [self.build(f'k{i}') for i in range(4)]
        operations.append(self.executor.submit(Call.GET, 'x'))
        self.until(lambda: operations[-1].state is OperationState.WAITING)
        self.executor.close(0.05)
        for operation in operations:
            self.assertIsInstance(operation.exception(0), OperationCancelled)
        with self.assertRaisesRegex(OperationRejected, 'closed'):
            self.executor.submit(Call.GET, 'x')
        self.executor.close(0.05)

    def test_what_runs_may_finish(self):
        self.driver.script = {Call.BUILD: [lambda _: self.gate.wait(0.05)]}
        operation = self.build()
        self.until(lambda: self.driver.asked)
        self.executor.close(5)
        self.assertEqual('id-k', operation.result(0))

    def test_submitting_from_a_callback_while_closing_does_not_deadlock(self):
        self.driver.script = {Call.BUILD: [self.hang] * 9}
        said = []

        def again(_):
            try:
                self.executor.submit(Call.GET, 'x')
            except OperationRejected as exc:
                said.append(exc)

        for i in range(4):
            self.build(f'k{i}').add_done_callback(again)
        self.executor.close(0.05)
        self.assertEqual(4, len(said))

    def test_a_removal_under_way_is_given_up_with_a_word(self):
        self.driver.script = {Call.FIND_BUILD: [self.hang]}
        discarded = self.executor.discard_build('k', None)
        with self.assertLogs('kiln.wrappers.discard', 'ERROR'):
            self.executor.close(0.05)
        self.assertTrue(discarded.done())
