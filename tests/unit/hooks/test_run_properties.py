"""Hook run under crashes: every hook is called, and none again after its success."""

import collections

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kiln.hooks.invocation import End
from kiln.hooks.points import OnDeadline, OnFailure, Point
from kiln.hooks.replies import Answer, Reply
from kiln.hooks.run import HookRun, Standing
from tests.examples import examples
from tests.unit.hooks.samples import NOW, hook, operation

TIMEOUT_S, DEADLINE_S = 7.0, 60.0
FAILURES = st.sampled_from([None, *OnFailure])
DEADLINES = st.sampled_from([None, *OnDeadline])
POINTS = st.sampled_from([point for point in Point if point.may_fail])
ANSWERS = st.one_of(
    st.just(Answer.ok()),
    st.just(Answer.failed('no')),
    st.builds(Answer.later, st.sampled_from(['', 'wait']), st.sampled_from([None, 0.0, 3.0, 500])),
)


class Site(RuleBasedStateMachine):
    """A process that runs one point and can be killed at any moment."""

    @initialize(point=POINTS, data=st.data())
    def begin(self, point, data):
        self.point = point
        self.now = NOW
        self.journal = {}
        self.made = collections.Counter()
        self.succeeded = set()
        self.out = []
        self.crashed_at = NOW
        policies = data.draw(
            st.lists(st.tuples(FAILURES, DEADLINES, st.integers(0, 2)), min_size=1, max_size=4)
        )
        self.hooks = [
            self.hook(f'h{number}', point, on_failure, on_deadline, retries)
            for number, (on_failure, on_deadline, retries) in enumerate(policies)
        ]
        if point.partner:
            self.hooks += [self.hook(one.name, point.partner, None, None, 0) for one in self.hooks]
        self.resume()

    def hook(self, name, point, on_failure, on_deadline, retries):
        return hook(
            name, point, on_failure=on_failure, on_deadline=on_deadline, timeout_s=TIMEOUT_S,
            deadline_s=DEADLINE_S, retries=retries if on_failure is OnFailure.RETRY else None,
        )  # fmt: skip

    def resume(self):
        self.run_ = HookRun(self.point, self.hooks, operation(), journal=self.journal)
        self.out = []
        self.crashed_at = self.now

    # ---- rules -------------------------------------------------------------------

    @rule()
    def turn(self):
        advance = self.run_.advance(self.now)
        self.journal.update(advance.steps)
        for call in advance.calls:
            assert call.invocation not in self.succeeded, 'the hook had succeeded'
            self.made[call.hook.point, call.hook.name] += 1
            self.out.append(call)

    @rule()
    def dies_before_the_commit(self):
        self.run_.advance(self.now)
        self.resume()

    @rule()
    def dies_between_the_commit_and_the_call(self):
        self.journal.update(self.run_.advance(self.now).steps)
        self.resume()

    @rule()
    def dies_while_a_hook_is_called(self):
        self.turn()
        self.resume()

    @precondition(lambda self: self.out)
    @rule(answer=ANSWERS)
    def answers(self, answer):
        call = self.out.pop()
        advance = self.run_.learn(call.invocation, answer, self.now)
        self.journal.update(advance.steps)
        # A late answer is not written, so it does not count as a success.
        if answer.reply is Reply.OK and advance.steps:
            self.succeeded.add(call.invocation)

    @precondition(lambda self: self.out)
    @rule(answer=ANSWERS)
    def dies_before_an_answer_is_written(self, answer):
        self.run_.learn(self.out.pop().invocation, answer, self.now)
        self.resume()

    @rule(seconds=st.sampled_from([0.5, 5.0, 30.0, 200.0]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule()
    def time_passes_until_something_is_due(self):
        if self.run_.standing is Standing.OPEN:
            self.now = max(self.now, self.run_.wake_at)

    # ---- invariants ----------------------------------------------------------------

    @invariant()
    def each_was_called_before_the_point_is_passed(self):
        if self.run_.standing is Standing.PASSED:
            for one in self.hooks:
                assert one.point is not self.point or self.made[one.point, one.name]

    @invariant()
    def it_fails_if_and_only_if_a_hook_did(self):
        failed = any(one.end is End.FAILED for one in self.run_.invocations
                     if one.hook.point is self.point)  # fmt: skip
        if self.run_.standing is not Standing.OPEN:
            assert failed is (self.run_.standing is Standing.FAILED)
            assert (self.run_.cause is not None) is failed

    @invariant()
    def only_what_succeeded_is_undone(self):
        for point, name in self.made:
            if point is not self.point:
                assert self.journal_end(name) == 'ok'

    def journal_end(self, name):
        return next(
            step.result['end'] for step in self.journal.values()
            if (step.result['hook'], step.result['point']) == (name, self.point.value)
        )  # fmt: skip

    def teardown(self):
        if not hasattr(self, 'run_'):
            return
        # Without further crashes or answers, the deadlines must end the run.
        self.resume()
        end = self.now + len(self.hooks) * (DEADLINE_S + TIMEOUT_S)
        while self.run_.standing is Standing.OPEN:
            self.turn()
            if self.run_.standing is Standing.OPEN:
                assert self.run_.wake_at > self.now, 'wake_at is not in the future'
                self.now = self.run_.wake_at
            assert self.now <= end, 'the run does not end by its deadline'
            self.each_was_called_before_the_point_is_passed()


Site.TestCase.settings = settings(max_examples=examples(12), stateful_step_count=30, deadline=None)
AnyLife = Site.TestCase
