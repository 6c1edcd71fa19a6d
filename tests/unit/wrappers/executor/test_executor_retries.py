"""Deadlines and retries of the executor."""

from kiln.clock import Deadline, current_deadline, deadline_scope
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraComputeError,
    CircuitOpenError,
    DeleteFailed,
    DeleteTimeout,
    OperationTimeout,
    Outcome,
    RateLimited,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.operation import OperationState
from tests.unit.wrappers.scripted import StageCase


class Deadlines(StageCase):
    def test_a_hanging_call_ends_for_its_caller_at_the_deadline(self):
        for hook, call, kind in (
            ('get', Call.GET, ServiceTimeout),
            ('delete', Call.DELETE, DeleteTimeout),
            ('suspend', Call.SUSPEND, ServiceTimeout),
        ):
            with self.subTest(hook):
                stage = self.stage(threads=True)
                gate, inside = self.hung(stage, hook)
                operation = stage.executor.submit(call, 'id-1', timeout_s=7)
                self.arrive(inside)
                self.assertIs(operation.state, OperationState.RUNNING)
                stage.clock.advance(6)
                self.assertFalse(operation.done())
                stage.clock.advance(1)
                stage.clock.run_until(operation.done, step_s=0)
                error = operation.exception()
                self.assertIs(type(error), kind)
                self.assertIs(error.outcome, Outcome.UNKNOWN)
                self.assertIn(f'{hook} id-1', str(error))
                self.assertEqual(stage.executor._workers.running, 1)
                gate.set()
                stage.until(stage.idle)

    def test_an_operation_that_expires_in_the_queue_is_never_sent(self):
        stage = self.stage(threads=True, settings=ExecutorSettings(max_workers=3))
        _, inside = self.hung(stage)
        stage.executor.submit(Call.GET, 'hangs')
        self.arrive(inside)
        operation = stage.executor.submit(Call.SUSPEND, 'queued', timeout_s=0.0)
        self.assertIsInstance(stage.settle(operation).exception(), OperationTimeout)
        self.assertIs(operation.exception().outcome, Outcome.NOT_APPLIED)
        self.assertEqual(stage.driver.sent, [('get', 'hangs')])

    def test_the_driver_sees_a_deadline_a_little_before_that_of_its_operation(self):
        stage, seen = self.stage(), []
        stage.driver.scripts['list'] = [lambda: seen.append(current_deadline())] * 2
        stage.executor.submit(Call.LIST, 'kiln', timeout_s=7)
        near = Deadline.after(3, stage.clock)
        with deadline_scope(near):
            stage.executor.submit(Call.LIST, 'kiln')
        self.assertEqual([deadline.at for deadline in seen], [6.7, 2.85])

    def test_a_call_that_uses_all_its_time_still_says_what_was_silent(self):
        stage = self.stage()

        def silent():
            stage.clock.sleep(current_deadline().remaining_s())
            raise ServiceTimeout('Keystone is silent')

        stage.driver.scripts['list'] = [silent] * 9
        operation = stage.settle(stage.executor.submit(Call.LIST, 'kiln', timeout_s=5))
        self.assertIn('Keystone is silent', str(operation.exception()))

    def test_the_earlier_of_two_deadlines_applies_and_a_far_one_is_accepted(self):
        stage = self.stage()
        with deadline_scope(Deadline.after(300, stage.clock)):
            self.assertEqual(stage.executor.submit(Call.LIST, 'kiln').deadline.at, 300)
            near = stage.executor.submit(Call.LIST, 'kiln', timeout_s=5)
        with deadline_scope(Deadline.after(3, stage.clock)):
            nearer = stage.executor.submit(Call.LIST, 'kiln', timeout_s=5)
        self.assertEqual((near.deadline.at, nearer.deadline.at), (5, 3))


class Retrying(StageCase):
    def test_reads_and_repeatable_changes_are_sent_until_answered(self):
        stage = self.stage(list=['refuse', 'vanish', 'lose'], delete=['vanish', 'refuse'])
        listed = stage.settle(stage.executor.submit(Call.LIST, 'kiln'))
        self.assertEqual(listed.result(), ())
        self.assertIsNone(stage.settle(stage.executor.submit(Call.DELETE, 'id-1')).result())
        hooks = [hook for hook, _ in stage.driver.sent]
        self.assertEqual(hooks, ['list'] * 4 + ['delete'] * 3)
        self.assertEqual([event.name for event in listed.events], ['waits'] * 3)

    def test_a_change_whose_outcome_is_unknown_is_not_repeated(self):
        stage = self.stage(suspend=['refuse', 'lose'])
        operation = stage.settle(stage.executor.submit(Call.SUSPEND, 'id-1'))
        self.assertIsInstance(operation.exception(), ServiceTimeout)
        self.assertEqual(len(stage.driver.sent), 2)

    def test_the_last_error_is_raised_if_no_other_attempt_fits(self):
        errors = [ServiceUnavailable(f'down {number}') for number in range(99)]
        # On this clock a slow thread does not miss its deadline.
        stage = self.stage(list=errors)
        operation = stage.settle(stage.executor.submit(Call.LIST, 'kiln', timeout_s=20))
        self.assertEqual(str(operation.exception()), f'down {len(stage.driver.sent) - 1}')
        self.assertLess(stage.clock.monotonic(), 20)

    def test_an_attempt_without_an_answer_tells_what_the_one_before_failed_with(self):
        down = ServiceUnavailable('Cannot list the amphorae of kiln: Keystone is down.')
        stage = self.stage(threads=True, moving=False, list=[down])
        _, inside = self.hung(stage, 'list')
        operation = stage.executor.submit(Call.LIST, 'kiln', timeout_s=20)
        stage.until(lambda: inside.acquire(blocking=False))
        error = stage.settle(operation).exception()
        self.assertIsInstance(error, ServiceTimeout)
        self.assertIs(error.__cause__, down)
        self.assertRegex(
            str(error),
            r'^Cannot list the amphorae of kiln: .* gave no answer before the deadline\. '
            r'The attempt before failed: Keystone is down\.$',
        )

    def test_a_pause_requested_by_the_backend_is_kept(self):
        stage = self.stage(list=[RateLimited('slow', retry_after=9)])
        stage.settle(stage.executor.submit(Call.LIST, 'kiln'))
        self.assertGreaterEqual(stage.clock.monotonic(), 9)

    def test_an_open_circuit_is_awaited_only_if_it_closes_in_time(self):
        opened = CircuitOpenError('open', retry_after=9)
        stage = self.stage(list=[opened, opened, CircuitOpenError('by hand')])
        operation = stage.settle(stage.executor.submit(Call.LIST, 'kiln', timeout_s=15))
        self.assertIs(operation.exception(), opened)
        self.assertEqual(len(stage.driver.sent), 2)
        by_hand = stage.executor.submit(Call.LIST, 'kiln')
        self.assertTrue(by_hand.done())

    def test_an_exceeded_rate_holds_only_its_kind_of_traffic_in_order(self):
        stage = self.stage()
        stage.driver.refusals[Call.GET] = lambda: (
            RateLimited('empty', retry_after=4) if stage.clock.monotonic() < 4 else None
        )
        reads = [stage.executor.submit(Call.GET, name) for name in 'abc']
        self.assertIsNone(stage.executor.submit(Call.DELETE, 'x').result())
        self.assertEqual({read.state for read in reads}, {OperationState.QUEUED})
        for read in reads:
            stage.settle(read)
        self.assertEqual([subject for _, subject in stage.driver.sent], ['x', 'a', 'b', 'c'])

    def test_an_exceeded_rate_beyond_the_deadline_is_the_error(self):
        stage = self.stage()
        stage.driver.refusals[Call.GET] = RateLimited('empty', retry_after=90)
        stage.driver.scripts['get'] = [stage.driver.refusals[Call.GET]]
        operation = stage.executor.submit(Call.GET, 'a', timeout_s=60)
        self.assertIsInstance(operation.exception(0), RateLimited)

    def test_an_unforeseen_exception_ends_the_operation_not_the_thread(self):
        stage = self.stage(threads=True, delete=['exit'], suspend=['exit'] * 9)
        error = stage.executor.submit(Call.DELETE, 'id-1').exception(120)
        self.assertIsInstance(error, DeleteFailed)
        self.assertIsInstance(error.__cause__, SystemExit)
        self.assertIs(error.outcome, Outcome.UNKNOWN)
        error = stage.executor.submit(Call.SUSPEND, 'id-1').exception(120)
        self.assertIs(type(error), AmphoraComputeError)
        for _ in range(8):
            error = stage.executor.submit(Call.SUSPEND, 'id-1').exception(120)
            self.assertIsInstance(error.__cause__, SystemExit)
        self.assertEqual(stage.executor.submit(Call.LIST, 'kiln').result(120), ())

    def test_a_defect_around_the_call_ends_the_operation_and_frees_its_thread(self):
        stage = self.stage()
        once = iter([None, ZeroDivisionError()])

        def refusal():
            if error := next(once):
                raise error

        stage.driver.refusals[Call.GET] = refusal
        with self.assertLogs('kiln.wrappers.executor.workers', 'ERROR'):
            operation = stage.executor.submit(Call.GET, 'id-1')
        self.assertIsInstance(operation.exception(0).__cause__, ZeroDivisionError)
        self.assertTrue(stage.idle())
