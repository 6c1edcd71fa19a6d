"""Clusters that are built by engines other than kiln's own."""

import dataclasses

from kiln.cluster_drivers.values import Progress, StatusReport
from kiln.clusters.exceptions import ClusterDriverError, ClusterNotFound, LeaseLost
from kiln.clusters.models import Event, OperationKind, OperationState
from kiln.engine.cluster.driver_worker import POLL_S, SOON_S
from kiln.hooks.points import Point
from kiln.hooks.replies import Answer
from kiln.hooks.run import SKIP_EVENT
from tests.unit.engine.foreign_site import BUSY, DONE, ForeignCase, Orchestra
from tests.unit.engine.site import group


class Creating(ForeignCase):
    def test_000_11_a_driver_is_called_once_and_then_polled(self):
        self.turn(StatusReport(progress=Progress.IN_PROGRESS, driver_handle='stack-1'))
        self.later(BUSY)
        self.assertEqual(
            '2 of 3 servers', self.store.operations.get(self.created.id).cause.message
        )
        self.later(DONE)
        self.assertEqual(['create', 'status', 'status'], self.calls())
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))
        self.assertTrue(self.work.idle)

    def test_000_14_the_drivers_handle_and_state_are_kept_and_passed_back(self):
        self.turn(StatusReport(driver_handle='stack-1', driver_state={'step': 2}))
        self.later(DONE)
        self.assertEqual([('create', None), ('status', 'stack-1')], self.driver.calls)
        cluster = self.store.clusters.get('web')
        self.assertEqual(('stack-1', {'step': 2}), (cluster.driver_handle, cluster.driver_state))
        self.assertEqual(cluster.aim, cluster.former)

    def test_000_3_the_driver_gets_the_time_that_is_left(self):
        self.turn(DONE)
        self.assertAlmostEqual(600.0, self.driver.timeout_s, delta=1.0)

    def test_a_driver_that_returns_nothing_is_polled_at_once(self):
        self.turn(None)
        self.turn(DONE)
        self.assertEqual(['create', 'status'], self.calls())

    def test_it_is_not_polled_early(self):
        self.turn(BUSY)
        self.clock.advance(POLL_S / 2)
        self.turn()
        self.assertEqual(['create'], self.calls())
        self.assertAlmostEqual(POLL_S / 2, self.work.due - self.clock.monotonic())

    def test_a_driver_that_has_something_to_report_is_polled_soon(self):
        self.turn(BUSY)
        self.clock.advance(SOON_S)
        self.driver.context.poll_soon()
        self.driver.answers.append(DONE)
        self.take_results()
        self.launched.pop()()
        self.take_results()
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_a_driver_that_asks_without_end_is_polled_with_a_pause(self):
        self.turn(BUSY)
        for _ in range(3):
            self.driver.context.poll_soon()
            self.take_results()
            self.assertAlmostEqual(SOON_S, self.work.due - self.clock.monotonic())
            self.assertEqual([], self.launched)

    def test_what_a_driver_asks_during_its_call_counts_after_the_call(self):
        self.driver.asks = True
        self.turn(BUSY)
        self.assertAlmostEqual(SOON_S, self.work.due - self.clock.monotonic())

    def test_a_driver_that_failed_cannot_shorten_the_pause(self):
        self.turn(BUSY)
        self.later(ClusterDriverError('The engine is away.'))
        due = self.work.due
        self.driver.context.poll_soon()
        self.take_results()
        self.assertEqual(due, self.work.due)

    def test_what_a_driver_asks_for_an_operation_that_is_over_is_ignored(self):
        self.turn(DONE)
        self.driver.context.poll_soon()
        self.take_results()
        self.assertEqual(['create'], self.calls())
        self.assertTrue(self.work.idle)

    def test_each_call_tells_its_operation(self):
        self.turn(BUSY)
        self.assertEqual(self.created.id, self.driver.context.operation)
        self.later(DONE)
        self.assertEqual(self.created.id, self.driver.context.operation)
        checked = self.submit(OperationKind.CHECK)
        self.turn(DONE)
        self.assertEqual(checked.id, self.driver.context.operation)

    def test_a_failure_of_the_engine_keeps_its_reason(self):
        self.turn(StatusReport(progress=Progress.FAILED, reason='no valid host'))
        ended = self.store.operations.get(self.created.id)
        self.assertIs(OperationState.FAILED, ended.state)
        self.assertEqual('no valid host', ended.cause.message)

    def test_what_happened_in_the_engine_becomes_events(self):
        said = ['a machine is up', 'password=hunter2\nand so on']
        self.turn(StatusReport(progress=Progress.IN_PROGRESS, events=said))
        self.later(DONE)
        events = [one.message for one in self.store.events.after(0) if one.kind == 'engine']
        self.assertEqual('a machine is up', events[0])
        self.assertEqual(2, len(events))
        self.assertNotIn('hunter2', events[1])
        self.assertNotIn('\n', events[1])

    def test_an_engine_that_cannot_be_reached_is_polled_again(self):
        self.turn(BUSY)
        self.later(StatusReport(progress=Progress.UNKNOWN))
        self.assertIs(OperationState.WAITING, self.state(self.created))
        self.later(ClusterDriverError('The engine is away.'))
        waiting = self.store.operations.get(self.created.id)
        self.assertIs(OperationState.WAITING, waiting.state)
        self.assertIn('away', waiting.cause.message)
        self.later(DONE)
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_a_permanent_refusal_of_a_driver_fails_the_operation(self):
        self.turn(ClusterDriverError('There is no such network.'))
        self.assertIs(OperationState.FAILED, self.state(self.created))
        (step,) = self.store.journal.of(self.created.id)
        self.assertEqual('failed', step.state.value)

    def test_a_temporary_refusal_of_a_driver_is_retried(self):
        self.turn(ClusterDriverError('Busy.', retryable=True))
        self.later(DONE)
        self.assertEqual(['create', 'create'], self.calls())
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_a_defect_of_a_driver_fails_only_its_operation(self):
        self.turn(RuntimeError('oops'))
        self.assertIn('oops', self.store.operations.get(self.created.id).cause.message)

    def test_it_ends_by_its_deadline(self):
        self.turn(BUSY)
        self.clock.advance(601)
        self.turn()
        ended = self.store.operations.get(self.created.id)
        self.assertEqual(('failed', 'deadline'), (ended.state.value, ended.cause.code))
        self.assertEqual('2 of 3 servers', ended.cause.because.message)

    def test_a_clock_that_was_set_back_gives_it_no_more_time(self):
        self.turn(BUSY)
        self.clock.step(-86400)
        self.turn()
        there = self.store.operations.get(self.created.id)
        self.assertEqual(self.clock.time() + 600, there.deadline_at)
        self.assertEqual(self.clock.time(), there.created_at)
        self.clock.advance(601)
        self.turn()
        self.assertIs(OperationState.FAILED, self.state(self.created))

    def test_it_can_be_cancelled(self):
        self.turn(BUSY)
        self.store.operations.cancel(self.created.id)
        self.work.reload()
        self.turn()
        self.assertIs(OperationState.CANCELLED, self.state(self.created))

    def test_what_a_driver_reports_after_its_operation_has_ended_is_kept(self):
        self.work.run_round([])
        call = self.launched.pop()
        self.store.operations.cancel(self.created.id)
        self.work.reload()
        self.work.run_round([])
        self.assertIs(OperationState.CANCELLED, self.state(self.created))
        self.driver.answers.append(
            StatusReport(
                progress=Progress.COMPLETE, driver_handle='stack-1', driver_state={'step': 2}
            )
        )
        call()
        self.take_results()
        cluster = self.store.clusters.get('web')
        self.assertEqual(('stack-1', {'step': 2}), (cluster.driver_handle, cluster.driver_state))
        self.assertIs(OperationState.CANCELLED, self.state(self.created))

    def test_it_can_be_cancelled_while_its_cluster_is_paused(self):
        self.turn(BUSY)
        self.store.clusters.pause(self.cluster_id)
        self.store.operations.cancel(self.created.id)
        self.work.reload()
        self.turn()
        self.assertIs(OperationState.CANCELLED, self.state(self.created))

    def test_the_driver_of_a_paused_cluster_is_not_called(self):
        self.store.clusters.pause(self.cluster_id)
        self.work.reload()
        self.turn()
        self.assertEqual([], self.calls())


class TakenOver(ForeignCase):
    def test_a_driver_that_was_called_is_not_called_again(self):
        self.turn(BUSY)
        self.takeover()
        self.turn(DONE)
        self.assertEqual(['create', 'status'], self.calls())

    def test_a_driver_call_of_unknown_outcome_is_repeated(self):
        self.work.run_round([])
        self.takeover()
        self.turn(DONE)
        self.assertEqual(['create'], self.calls())
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_an_owner_that_lost_the_cluster_writes_nothing(self):
        self.work.run_round([])
        before, results, launched = self.work, self.results, self.launched
        self.takeover()
        launched.pop()()
        with self.assertRaises(LeaseLost):
            before.run_round(results)
        self.assertIs(OperationState.RUNNING, self.state(self.created))

    def test_a_result_of_an_earlier_operation_is_ignored(self):
        self.work.run_round([])
        self.launched.pop()()
        rebooted = self.cancelled_for(OperationKind.REBOOT)
        self.work.run_round(self.results)
        self.assertFalse(self.state(rebooted).ended)
        self.assertEqual(1, len(self.launched), 'the call of the reboot')

    def test_a_failure_of_an_earlier_operation_is_ignored(self):
        self.driver.answers.append(ClusterDriverError('Too late.'))
        self.work.run_round([])
        self.launched.pop()()
        rebooted = self.cancelled_for(OperationKind.REBOOT)
        self.work.run_round(self.results)
        self.assertFalse(self.state(rebooted).ended)
        self.assertEqual(1, len(self.launched), 'the call of the reboot')

    def cancelled_for(self, kind):
        """Cancel the creation, whose result has not been taken, and request another operation."""
        self.store.operations.cancel(self.created.id)
        self.work.reload()
        self.work.run_round([])
        self.assertIs(OperationState.CANCELLED, self.state(self.created))
        return self.submit(kind)


class Hooked(ForeignCase):
    def test_000_7_hooks_are_called_before_and_after_the_driver(self):
        self.hooked(self.hook(Point.PRE_CREATE), self.hook(Point.POST_CREATE))
        self.turn(BUSY)
        self.assertEqual((['pre_create'], ['create']), (self.points(), self.calls()))
        self.later(DONE)
        self.assertEqual(['pre_create', 'post_create'], self.points())
        self.assertEqual('succeeded', self.called[1]['outcome'])
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_a_hook_that_fails_before_prevents_the_driver_call(self):
        self.hooked(self.hook(Point.PRE_CREATE, Answer.failed('no address is left')))
        self.turn()
        ended = self.store.operations.get(self.created.id)
        self.assertIs(OperationState.FAILED, ended.state)
        self.assertIn('no address is left', ended.cause.message)
        self.assertEqual([], self.calls())

    def test_a_hook_to_be_called_later_holds_the_operation_up(self):
        self.hooked(self.hook(Point.PRE_CREATE, Answer.later('the rack is locked', 7.0)))
        self.turn()
        waiting = self.store.operations.get(self.created.id)
        self.assertIs(OperationState.WAITING, waiting.state)
        self.assertIn('the rack is locked', waiting.cause.message)
        self.assertAlmostEqual(7.0, self.work.due - self.clock.monotonic(), delta=0.1)
        self.clock.advance(8.0)
        self.turn(DONE)
        self.assertEqual({1, 2}, {one['attempt'] for one in self.called})
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_a_hook_that_fails_after_does_not_repeat_the_driver_call(self):
        self.hooked(self.hook(Point.POST_CREATE, Answer.later('no service yet', 7.0)))
        self.turn(DONE)
        self.takeover()
        self.turn()
        self.clock.advance(8.0)
        self.turn()
        self.assertEqual(['create'], self.calls())
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_a_deadline_missed_because_of_hooks_names_them(self):
        self.hooked(self.hook(Point.POST_CREATE, Answer.later('no service yet', 500.0)))
        self.turn(DONE)
        self.clock.advance(601)
        self.turn()
        cause = self.store.operations.get(self.created.id).cause
        self.assertIn('its hooks are not done', cause.message)
        self.assertIn('no service yet', cause.because.message)

    def test_a_hook_can_be_skipped(self):
        self.hooked(self.hook(Point.POST_CREATE, Answer.later('no service yet', 60.0)))
        self.turn(DONE)
        facts = {'hook': 'a', 'reason': 'it is known'}
        self.store.events.add(
            Event(cluster_id=self.cluster_id, kind=SKIP_EVENT, message='',
                  operation_id=self.created.id, facts=facts)
        )  # fmt: skip
        self.work.reload()
        self.turn()
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_the_drivers_own_hooks_run_inside_all_others(self):
        seen = []

        class Careful(Orchestra):
            def pre_delete_cluster(self, context, cluster, operation):
                seen.append((cluster.name, operation.kind))

        self.driver = Careful()
        self.hooked(self.hook(Point.PRE_DELETE), self.hook(Point.POST_DELETE))
        self.turn(DONE)
        self.submit(OperationKind.DELETE)
        self.turn(DONE)
        self.assertEqual([('web', OperationKind.DELETE)], seen)
        self.assertEqual(['pre_delete', 'post_delete'], self.points())
        self.assertEqual('web', self.store.receipts.get('web').name)

    def test_a_check_calls_no_hooks(self):
        self.hooked(self.hook(Point.PRE_UPDATE), self.hook(Point.POST_UPDATE))
        self.turn(DONE)
        self.submit(OperationKind.CHECK)
        self.later(None)
        self.assertEqual([], self.points())


class Forced(ForeignCase):
    def setUp(self):
        super().setUp()
        self.turn(StatusReport(progress=Progress.COMPLETE, driver_handle='stack-1'))
        self.driver.calls.clear()
        self.deletion = self.submit(OperationKind.DELETE, force=True)

    def assert_given_up(self):
        self.assertIs(OperationState.SUCCEEDED, self.state(self.deletion))
        (left,) = self.store.receipts.get('web').abandoned
        self.assertEqual(('plain', 'handle', 'stack-1'), (left.backend, left.kind, left.id))

    def test_a_deletion_refused_three_times_is_abandoned(self):
        for _ in range(2):
            self.later(ClusterDriverError('There is no such stack.'))
            self.assertIs(OperationState.WAITING, self.state(self.deletion))
        self.later(StatusReport(progress=Progress.FAILED))
        self.assertEqual(['delete'] * 3, self.calls())
        self.assert_given_up()

    def test_what_was_abandoned_is_not_confirmed_by_the_next_owner(self):
        self.hooked(self.hook(Point.POST_DELETE, Answer.later('not now', 7.0)))
        for _ in range(3):
            self.later(ClusterDriverError('There is no such stack.'))
        self.assertFalse(self.state(self.deletion).ended)
        self.takeover()
        self.turn()
        self.clock.advance(8.0)
        self.turn()
        self.assert_given_up()

    def test_a_driver_that_never_answers_is_abandoned_at_the_deadline(self):
        self.work.run_round([])
        self.clock.advance(601)
        self.work.run_round([])
        self.assert_given_up()

    def test_nothing_is_abandoned_if_the_driver_deletes_it(self):
        self.turn(BUSY)
        self.later(DONE)
        self.assertEqual((), self.store.receipts.get('web').abandoned)


class Retried(ForeignCase):
    def retry(self):
        self.clock.advance(1.0)
        deadline_at = self.clock.time() + 600.0
        self.store.operations.reopen(self.created.id, deadline_at=deadline_at)
        self.work.reload()
        self.clock.advance(1.0)

    def test_a_driver_whose_engine_failed_is_called_again(self):
        self.turn(BUSY)
        self.later(StatusReport(progress=Progress.FAILED, reason='no valid host'))
        self.retry()
        self.turn(BUSY)
        self.takeover()
        self.turn(DONE)
        self.assertEqual(['create', 'status', 'create', 'status'], self.calls())
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_a_failed_hook_does_not_repeat_a_completed_driver_call(self):
        self.hooked(self.hook(Point.POST_CREATE, Answer.failed('no service')))
        self.turn(DONE)
        self.assertIs(OperationState.FAILED, self.state(self.created))
        self.retry()
        self.turn()
        self.assertEqual((['create'], 2), (self.calls(), self.called[-1]['attempt']))
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))


class Settled(ForeignCase):
    def setUp(self):
        super().setUp()
        self.turn(DONE)
        self.driver.calls.clear()

    def test_each_operation_has_its_driver_call(self):
        for kind, call, args in (
            (OperationKind.UPDATE, 'update', {}),
            (OperationKind.RESIZE, 'resize', {'group': 'work'}),
            (OperationKind.UPGRADE, 'upgrade', {}),
            (OperationKind.REBOOT, 'reboot', {'hard': True}),
            (OperationKind.CHECK, 'status', {}),
        ):
            with self.subTest(kind=kind):
                operation = self.submit(kind, **args)
                self.later(DONE)
                self.assertIs(OperationState.SUCCEEDED, self.state(operation))
                self.assertEqual(call, self.calls()[-1])
        self.assertEqual(('work', 3), self.driver.resized)
        self.assertEqual(['work'], self.driver.upgraded)
        self.assertTrue(self.driver.hard)

    def test_a_missing_capability_is_reported(self):
        for kind in (OperationKind.REBUILD, OperationKind.ROTATE, OperationKind.REPLACE):
            with self.subTest(kind=kind):
                operation = self.submit(kind)
                self.later()
                ended = self.store.operations.get(operation.id)
                self.assertEqual('missing_capability', ended.cause.code)

    def test_a_check_of_a_driver_that_does_not_report_says_so(self):
        operation = self.submit(OperationKind.CHECK)
        self.later(None)
        self.assertIs(OperationState.SUCCEEDED, self.state(operation))
        (event,) = self.store.events.after(0, kind='not-checked')
        self.assertIn('nothing was checked', event.message)

    def test_a_check_fails_where_the_engine_failed_or_is_unknown(self):
        for progress, code in (
            (Progress.FAILED, 'engine_failed'),
            (Progress.UNKNOWN, 'engine_unknown'),
        ):
            with self.subTest(progress):
                operation = self.submit(OperationKind.CHECK)
                self.later(StatusReport(progress=progress))
                ended = self.store.operations.get(operation.id)
                self.assertEqual(('failed', code), (ended.state.value, ended.cause.code))

    def test_000_5_a_cluster_is_gone_when_its_driver_reports_so(self):
        operation = self.submit(OperationKind.DELETE)
        self.later(BUSY)
        self.assertEqual('web', self.store.clusters.get('web').name)
        self.later(DONE)
        self.assertIs(OperationState.SUCCEEDED, self.state(operation))
        with self.assertRaises(ClusterNotFound):
            self.store.clusters.get('web')
        self.assertEqual('web', self.store.receipts.get('web').name)

    def test_a_change_made_meanwhile_is_read(self):
        there = self.store.clusters.get('web')
        spec = dataclasses.replace(there.spec, groups=(group(4),))
        operation = self.operation(OperationKind.RESIZE, group='work')
        self.store.clusters.change(there.id, spec, generation=1, operation=operation)
        self.work.reload()
        self.later(DONE)
        self.assertEqual(('work', 4), self.driver.resized)
