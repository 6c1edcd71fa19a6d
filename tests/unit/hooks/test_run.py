"""Hook run: calls, journal steps and state of one point of an operation."""

import math
import unittest

from kiln.clusters.models import OperationKind, StepState
from kiln.hooks.hook import invocation_id
from kiln.hooks.invocation import End
from kiln.hooks.payload import Outcome
from kiln.hooks.points import OnDeadline, OnFailure, Point
from kiln.hooks.replies import Answer
from kiln.hooks.run import HookRun, Skip, Standing
from tests.unit.hooks.samples import NOW, hook, operation


class RunCase(unittest.TestCase):
    point = Point.PRE_CREATE

    def setUp(self):
        self.now = NOW
        self.journal = {}
        self.told = []
        self.made = []

    def begin(self, *hooks, node_id=None, **more):
        self.hooks = hooks
        self.run_ = HookRun(
            self.point, hooks, operation(**more), node_id=node_id, journal=self.journal
        )
        return self.run_

    def hook(self, name, point=None, **more):
        return hook(name, point or self.point, **more)

    def take(self, advance):
        self.journal.update(advance.steps)
        for note in advance.notices:
            self.told.append(note.kind)
            self.facts = note.facts
        return advance

    def calls(self, *skips):
        """Return the names of the hooks to call now."""
        calls = self.take(self.run_.advance(self.now, skips)).calls
        # A running call can still be answered.
        self.made = calls or self.made
        return [call.hook.name for call in calls]

    def answer(self, answer):
        (call,) = self.made
        self.take(self.run_.learn(call.invocation, answer, self.now))

    def all(self, answers):
        """Answer all calls by the names of the hooks; return the names in order."""
        order = []
        while names := self.calls():
            order += names
            self.answer(answers.get(names[0], Answer.ok()))
        return order

    def assert_stands(self, standing):
        self.assertIs(standing, self.run_.standing)


class Passing(RunCase):
    def test_a_point_without_hooks_is_passed(self):
        self.begin()
        self.assert_stands(Standing.PASSED)
        self.assertEqual(([], None, math.inf), (self.calls(), self.run_.cause, self.run_.wake_at))

    def test_hooks_are_called_one_after_the_other(self):
        self.begin(self.hook('b'), self.hook('a'))
        self.assertEqual(['a'], self.calls())
        self.assertEqual([], self.calls())
        self.answer(Answer.ok())
        self.assertEqual(['b'], self.calls())
        self.assert_stands(Standing.OPEN)
        self.answer(Answer.ok())
        self.assert_stands(Standing.PASSED)
        self.assertEqual([], self.told)

    def test_a_call_is_written_before_it_is_made(self):
        self.begin(self.hook('a', deadline_s=60.0))
        self.calls()
        (step,) = self.journal.values()
        key = invocation_id('op1', self.point, 'a', None)
        self.assertEqual(
            (key, key, 'hook', StepState.INTENT, 1, NOW, NOW + 60, 'c1', 'op1'),
            (step.id, step.token, step.kind, step.state, step.attempt, step.started_at,
             step.deadline_at, step.cluster_id, step.operation_id),
        )  # fmt: skip

    def test_the_hook_that_blocks_is_reported_at_once(self):
        self.begin(self.hook('a'))
        self.calls()
        self.assertIn('pre_create/a', self.run_.cause.message)
        self.answer(Answer.later('the rack is locked'))
        cause = self.run_.cause
        self.assertIn('the rack is locked', cause.message)
        self.assertEqual(
            {'hook': 'pre_create/a', 'since': NOW, 'invocation': self.made[0].invocation},
            self.facts,
        )
        self.assertIn('kiln hook skip op1 pre_create/a', cause.hint)
        self.assertIn('kiln does that by itself', cause.hint)
        self.assertEqual('hook', cause.code)

    def test_an_unexpected_answer_changes_nothing(self):
        self.begin(self.hook('a'))
        self.calls()
        self.answer(Answer.ok())
        self.answer(Answer.failed('no'))
        self.take(self.run_.learn('unknown', Answer.failed('no'), self.now))
        self.assert_stands(Standing.PASSED)


class Retried(RunCase):
    """The operation is retried after one of its hooks failed."""

    def retry(self):
        self.now += 100
        self.since = self.now
        self.resume()

    def resume(self):
        """Resume with the journal only, as another process would."""
        self.now += 1
        self.begin(*self.hooks, args={'retried_at': self.since})

    def test_a_failed_post_hook_is_called_again_with_its_key_and_full_deadline(self):
        self.point = Point.POST_CREATE
        self.begin(self.hook('a'), self.hook('b', deadline_s=60.0))
        self.assertEqual(['b', 'a'], self.all({'b': Answer.failed('no')}))
        self.assert_stands(Standing.FAILED)
        self.retry()
        self.assertEqual(['b'], self.calls())
        (call,) = self.made
        key = invocation_id('op1', self.point, 'b', None)
        self.assertEqual((key, 2), (call.invocation, call.attempt))
        self.assertEqual(self.now + 60, self.run_.wake_at)
        self.answer(Answer.ok())
        self.assert_stands(Standing.PASSED)

    def test_a_hook_that_fails_again_fails_the_point_again(self):
        self.begin(self.hook('a'))
        self.all({'a': Answer.failed('no')})
        self.retry()
        self.all({'a': Answer.failed('still not')})
        self.assert_stands(Standing.FAILED)
        self.resume()
        self.assert_stands(Standing.FAILED)
        self.assertIn('still not', self.run_.cause.message)

    def test_an_undone_hook_is_called_again_exactly_once(self):
        post = Point.POST_CREATE
        self.begin(self.hook('a'), self.hook('b'), self.hook('a', post), self.hook('c', post))
        self.assertEqual(['a', 'b', 'a'], self.all({'b': Answer.failed('no')}))
        self.retry()
        self.assertEqual(['a'], self.calls())
        self.answer(Answer.ok())
        self.resume()
        self.assertEqual(['b'], self.all({}))
        # The partner hook, called for the undo before, is now called with success.
        self.point = post
        self.resume()
        self.assertEqual(['c'], self.calls())
        self.answer(Answer.ok())
        self.assertEqual(['a'], self.calls())
        self.assertIs(Outcome.SUCCEEDED, self.made[0].outcome)

    def test_a_hook_that_succeeded_and_was_not_undone_is_not_called_again(self):
        self.begin(self.hook('a'), self.hook('b'))
        self.all({'b': Answer.failed('no')})
        self.retry()
        self.assertEqual(['b'], self.all({}))

    def test_a_failed_hook_can_be_skipped_instead(self):
        self.begin(self.hook('a'))
        self.all({'a': Answer.failed('no')})
        self.retry()
        self.assertEqual([], self.calls(Skip('a', 'it is known')))
        self.assert_stands(Standing.PASSED)


class Later(RunCase):
    def test_later_is_not_a_failure_and_is_called_again_with_the_same_key(self):
        self.begin(self.hook('a'))
        self.calls()
        key = self.made[0].invocation
        self.answer(Answer.later('wait', 20.0))
        self.assertEqual([], self.calls())
        self.assertEqual(NOW + 20, self.run_.wake_at)
        self.now += 20
        self.assertEqual(['a'], self.calls())
        self.assertEqual((key, 2), (self.made[0].invocation, self.made[0].attempt))

    def test_a_repeated_message_is_reported_once(self):
        self.begin(self.hook('a'))
        for message in ('wait', 'wait', 'wait', 'still'):
            self.calls()
            self.answer(Answer.later(message, 1.0))
            self.now += 1
        self.assertEqual(['hook-blocked', 'hook-blocked'], self.told)

    def test_the_pause_requested_by_a_hook_is_bounded(self):
        for wanted, pause in ((0.0, 1.0), (None, 10.0), (1e8, 300.0)):
            self.setUp()
            self.begin(self.hook('a'))
            self.calls()
            self.answer(Answer.later('', wanted))
            self.assertEqual(self.now + pause, self.run_.wake_at)

    def test_the_deadline_runs_from_the_first_call(self):
        self.begin(self.hook('a', deadline_s=60.0))
        self.calls()
        self.answer(Answer.later('wait', 300.0))
        self.assertEqual(NOW + 60, self.run_.wake_at)
        self.now += 60
        self.assertEqual([], self.calls())
        self.assert_stands(Standing.FAILED)
        self.assertRegex(self.run_.cause.message, 'pre_create/a.*within 60 s.*wait')

    def test_the_deadline_ends_a_call_that_is_never_answered(self):
        self.begin(self.hook('a', on_deadline=OnDeadline.CONTINUE), self.hook('b'))
        self.calls()
        self.assertEqual(NOW + 600, self.run_.wake_at)
        self.now += 600
        self.assertEqual(['b'], self.calls())
        self.assertEqual(['hook-passed-over'], self.told)


class Failing(RunCase):
    def test_fail_ends_the_point_at_the_first_failure(self):
        self.begin(self.hook('a'), self.hook('b'))
        self.assertEqual(['a'], self.all({'a': Answer.failed('disk is full')}))
        self.assert_stands(Standing.FAILED)
        self.assertEqual('hook_failed', self.run_.cause.code)
        self.assertIn('disk is full', self.run_.cause.message)
        (step,) = self.journal.values()
        self.assertEqual((StepState.FAILED, self.run_.cause), (step.state, step.cause))

    def test_warn_calls_the_next_hook(self):
        self.begin(self.hook('a', on_failure=OnFailure.WARN), self.hook('b'))
        self.assertEqual(['a', 'b'], self.all({'a': Answer.failed('no')}))
        self.assert_stands(Standing.PASSED)
        self.assertEqual(['hook-passed-over'], self.told)

    def retry(self, **more):
        return self.begin(self.hook('a', on_failure=OnFailure.RETRY, backoff_s=5.0, **more))

    def test_retry_waits_longer_each_time(self):
        self.retry()
        for pause in (5, 10, 20, 40, 80, 160, 300, 300):
            if self.run_.wake_at >= NOW + 600:
                break
            self.assertEqual(['a'], self.calls())
            self.answer(Answer.failed('no'))
            self.assertEqual(min(self.now + pause, NOW + 600), self.run_.wake_at)
            self.now += pause
        self.assertEqual(['hook-blocked'], self.told)

    def test_used_up_retries_are_treated_like_a_deadline(self):
        for on_deadline, standing in (
            (OnDeadline.FAIL, Standing.FAILED), (OnDeadline.CONTINUE, Standing.PASSED),
        ):  # fmt: skip
            self.setUp()
            self.retry(retries=1, on_deadline=on_deadline)
            for _ in range(2):
                self.assertEqual(['a'], self.calls())
                self.answer(Answer.failed('no'))
                self.now += 300
            self.assert_stands(standing)

    def test_a_failed_pre_point_undoes_the_hooks_that_had_succeeded(self):
        undo = Point.POST_CREATE
        self.begin(
            self.hook('a'), self.hook('b'), self.hook('c'), self.hook('d'),
            self.hook('a', undo), self.hook('b', undo), self.hook('c', undo),
            self.hook('d', undo), self.hook('other', undo),
        )  # fmt: skip
        order = self.all({'c': Answer.failed('no')})
        self.assertEqual(['a', 'b', 'c', 'b', 'a'], order)
        self.assert_stands(Standing.FAILED)
        self.assertIn('pre_create/c', self.run_.cause.message)

    def test_all_are_undone_with_outcome_failed_even_if_one_fails(self):
        undo = Point.POST_CREATE
        self.begin(
            self.hook('a'), self.hook('b'), self.hook('c'),
            self.hook('a', undo), self.hook('b', undo),
        )  # fmt: skip
        for answer in (Answer.ok(), Answer.ok(), Answer.failed('no')):
            self.calls()
            self.assertIs(None, self.made[0].outcome)
            self.answer(answer)
        for name, answer in (('b', Answer.failed('no')), ('a', Answer.ok())):
            self.assert_stands(Standing.OPEN)
            self.assertEqual([name], self.calls())
            self.assertIs(Outcome.FAILED, self.made[0].outcome)
            self.answer(answer)
        self.assert_stands(Standing.FAILED)


class After(RunCase):
    point = Point.POST_CREATE

    def test_all_post_hooks_are_called_even_if_one_fails(self):
        self.begin(self.hook('a'), self.hook('b'), self.hook('c'), kind=OperationKind.CREATE)
        self.assertEqual(['c', 'b', 'a'], self.all({'c': Answer.failed('no')}))
        self.assert_stands(Standing.FAILED)
        self.assertIs(Outcome.SUCCEEDED, self.run_.invocations[0].outcome)


class Resuming(RunCase):
    def resume(self):
        self.begin(*self.hooks)

    def test_b6_a_hook_that_succeeded_is_not_called_again(self):
        self.begin(self.hook('a'), self.hook('b'))
        self.calls()
        self.answer(Answer.ok())
        self.resume()
        self.assertEqual(['b'], self.calls())

    def test_b6_a_running_call_is_repeated_with_the_same_key(self):
        self.begin(self.hook('a'))
        self.calls()
        key = self.made[0].invocation
        self.resume()
        self.assertEqual(['a'], self.calls())
        self.assertEqual((key, 2), (self.made[0].invocation, self.made[0].attempt))

    def test_a_waiting_hook_keeps_its_pause(self):
        self.begin(self.hook('a'))
        self.calls()
        self.answer(Answer.later('wait', 50.0))
        self.resume()
        self.assertEqual([], self.calls())
        self.assertIn('wait', self.run_.cause.message)
        self.assertEqual(NOW + 50, self.run_.wake_at)

    def test_a_clock_that_was_set_back_ends_the_pause_of_a_hook(self):
        self.begin(self.hook('a'))
        self.calls()
        self.answer(Answer.later('wait', 50.0))
        self.now -= 3600
        self.assertEqual(['a'], self.calls())

    def test_a_clock_that_was_set_back_gives_a_hook_no_more_time(self):
        for resumed in (False, True):
            self.setUp()
            self.begin(self.hook('a', deadline_s=60.0))
            self.calls()
            self.answer(Answer.later('wait', 300.0))
            self.now -= 86400
            if resumed:
                self.resume()
            self.assertEqual(['a'], self.calls())
            self.assertEqual(self.now + 60, self.run_.wake_at)
            self.now += 60
            self.assertEqual([], self.calls())
            self.assert_stands(Standing.FAILED)

    def test_failures_before_a_crash_are_counted(self):
        self.begin(self.hook('a', on_failure=OnFailure.RETRY, retries=1))
        self.calls()
        self.answer(Answer.failed('no'))
        self.resume()
        self.now += 5
        self.calls()
        self.answer(Answer.failed('no'))
        self.assert_stands(Standing.FAILED)

    def test_a_call_that_might_not_have_been_made_has_time_for_one_call(self):
        self.begin(self.hook('a', timeout_s=7.0))
        self.calls()
        self.now += 10_000
        self.resume()
        self.assertEqual(['a'], self.calls())
        self.assertEqual(self.now + 7, self.run_.wake_at)

    def test_an_undo_is_resumed(self):
        undo = Point.POST_CREATE
        self.begin(
            self.hook('a'), self.hook('b'), self.hook('c'),
            self.hook('a', undo), self.hook('b', undo),
        )  # fmt: skip
        for answer in (Answer.ok(), Answer.ok(), Answer.failed('no'), Answer.ok()):
            self.calls()
            self.answer(answer)
        self.resume()
        self.assertEqual(['a'], self.calls())

    def test_a_failure_is_restored_with_its_message(self):
        self.begin(self.hook('a'))
        self.all({'a': Answer.failed('disk is full')})
        self.resume()
        self.assert_stands(Standing.FAILED)
        self.assertIn('disk is full', self.run_.cause.message)


class Skipping(RunCase):
    skip = Skip('a', 'the rack is gone')

    def test_a_skipped_hook_lets_the_next_hook_run(self):
        self.begin(self.hook('a'), self.hook('b'))
        self.calls()
        self.answer(Answer.later('wait'))
        self.assertEqual(['b'], self.calls(self.skip))
        self.assertEqual(['hook-blocked', 'hook-skipped'], self.told)
        self.assertIs(End.SKIPPED, self.run_.invocations[0].end)

    def test_a_hook_skipped_before_its_first_call_is_never_called(self):
        self.begin(self.hook('a'))
        self.assertEqual([], self.calls(Skip('pre_create/a', 'why')))
        self.assert_stands(Standing.PASSED)
        self.assertEqual(NOW, next(iter(self.journal.values())).started_at)

    def test_only_the_named_hook_is_skipped(self):
        self.begin(self.hook('a'))
        self.assertEqual(['a'], self.calls(Skip('b', 'why'), Skip('post_create/a', 'why')))

    def test_an_answer_after_a_skip_changes_nothing(self):
        self.begin(self.hook('a'))
        self.calls()
        self.calls(self.skip)
        self.answer(Answer.failed('no'))
        self.assert_stands(Standing.PASSED)

    def test_a_hook_that_has_ended_cannot_be_skipped(self):
        self.begin(self.hook('a'))
        self.all({})
        self.assertEqual({}, self.run_.advance(self.now, [self.skip]).steps)


class OfANode(RunCase):
    point = Point.PRE_NODE_TERMINATE

    def test_a_hook_that_refuses_a_node_removal_can_be_skipped(self):
        self.begin(self.hook('a', on_failure=OnFailure.FAIL), node_id='n1')
        self.all({'a': Answer.failed('it holds the only copy')})
        self.assert_stands(Standing.FAILED)
        self.calls(Skip('a', 'a copy exists'))
        self.assert_stands(Standing.PASSED)
        self.assertEqual('n1', next(iter(self.journal.values())).node_id)
