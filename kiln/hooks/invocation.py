"""Hook invocation: state of one hook at one point of an operation; no I/O."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from kiln.clusters.models import Cause, Operation, Step, StepState
from kiln.hooks.hook import Hook, invocation_id
from kiln.hooks.payload import Outcome
from kiln.hooks.points import OnDeadline, OnFailure
from kiln.hooks.replies import Answer, Reply
from kiln.programs.output import clean

#: Kind of the journal steps of hooks.
STEP_KIND = 'hook'
#: Seconds until the next call of a hook that replies "later" without a time.
LATER_S = 10.0
#: Limits of the seconds between two calls, whatever the hook requests.
LEAST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0


class End(enum.StrEnum):
    """How an invocation ended."""

    OK = 'ok'
    FAILED = 'failed'
    #: The hook failed or missed its deadline, and the operation goes on.
    PASSED_OVER = 'passed_over'
    #: A user skipped the hook.
    SKIPPED = 'skipped'


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call to make now; all calls of an invocation have the same key."""

    hook: Hook
    invocation: str
    attempt: int
    #: Result of the action that the point follows; None at pre_ points.
    outcome: Outcome | None

    def document(self, occasion: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the payload of the call."""
        return {
            **occasion,
            'invocation': self.invocation,
            'attempt': self.attempt,
            'point': self.hook.point.value,
            'hook': self.hook.name,
            'outcome': self.outcome.value if self.outcome else None,
        }


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Invocation:
    """State of an invocation, stored in one step of the journal."""

    hook: Hook
    operation: Operation
    node_id: str | None
    outcome: Outcome | None
    end: End | None = None
    calls: int = 0
    answers: int = 0
    failures: int = 0
    #: Time of the first call, and the deadline; seconds since the epoch.
    since: float = 0.0
    deadline_at: float = 0.0
    ended_at: float | None = None
    #: Time of the next call, at the earliest.
    again_at: float = 0.0
    #: Message of the last answer.
    message: str = ''

    @property
    def id(self) -> str:
        """The key of all calls, and of the step in the journal."""
        return invocation_id(self.operation.id, self.hook.point, self.hook.name, self.node_id)

    def resumed(self, step: Step) -> Invocation:
        """Return the invocation as the journal holds it.

        If the operation was retried later, a failure of the hook, and an undo, no longer
        count.
        """
        said = step.result
        known = dataclasses.replace(
            self,
            end=End(said['end']) if said.get('end') else None,
            calls=step.attempt,
            answers=said['answers'],
            failures=said['failures'],
            since=step.started_at,
            deadline_at=step.deadline_at or 0.0,
            ended_at=step.ended_at,
            again_at=said['again_at'],
            message=said['message'],
        )
        over = known.end is End.FAILED or said.get('outcome') == Outcome.FAILED
        return known.renewed() if over and known.before_retry else known

    def renewed(self) -> Invocation:
        """Return the invocation reset: called again under its key, with its full deadline."""
        return dataclasses.replace(
            self, end=None, ended_at=None, answers=self.calls, failures=0, deadline_at=0.0,
            again_at=0.0, message='',
        )  # fmt: skip

    @property
    def begun(self) -> bool:
        """True if the deadline is running."""
        return self.deadline_at > 0.0

    @property
    def unanswered(self) -> bool:
        """True if a call was recorded, and its result is unknown."""
        return self.calls > self.answers

    @property
    def before_retry(self) -> bool:
        """True if the first call was before the operation was retried."""
        return self.since <= self.operation.retried_at

    def is_later(self, now: float) -> bool:
        """Return True if it was called first at a later time: the clock was set back."""
        return self.begun and self.since > now

    def waits(self, now: float) -> bool:
        """Return True if it is not called again yet."""
        # A time that is further away than any pause is that of a clock which was set back.
        return bool(self.calls) and 0 < self.again_at - now < LONGEST_PAUSE_S + 1.0

    # ---- transitions -----------------------------------------------------------

    def called(self, now: float) -> Invocation:
        """Return the invocation with a call recorded."""
        begun = self._begun(now)
        deadline_at = begun.deadline_at
        if self.unanswered:
            # A crash might have prevented the recorded call: leave time for one call.
            deadline_at = max(deadline_at, now + self.hook.timeout_s)
        return dataclasses.replace(
            begun, calls=self.calls + 1, again_at=now, deadline_at=deadline_at
        )

    def date_back(self, now: float) -> Invocation:
        """Return the invocation called first now, with as much time as before."""
        return dataclasses.replace(
            self, since=now, deadline_at=self.deadline_at - (self.since - now)
        )

    def answered(self, answer: Answer, now: float) -> Invocation:
        """Return the invocation with an answer applied."""
        heard = dataclasses.replace(self, answers=self.calls, message=answer.message)
        if answer.reply is Reply.OK:
            return heard._ended(End.OK, now)
        if answer.reply is Reply.LATER:
            pause_s = LATER_S if answer.after_s is None else answer.after_s
            return heard._again(pause_s, now)
        return dataclasses.replace(heard, failures=self.failures + 1)._failed(now)

    def late(self, now: float) -> Invocation:
        """Return the invocation with its deadline passed."""
        why = f'it did not succeed within {self.hook.deadline_s:g} s'
        message = clean(f'{why}; its last message: {self.message}' if self.message else why)
        return dataclasses.replace(self, message=message)._given_up(now)

    def skipped(self, reason: str, now: float) -> Invocation:
        """Return the invocation as skipped by a user."""
        said = dataclasses.replace(self._begun(now), message=clean(reason))
        return said._ended(End.SKIPPED, now)

    def _begun(self, now: float) -> Invocation:
        if self.begun:
            return self
        return dataclasses.replace(self, since=now, deadline_at=now + self.hook.deadline_s)

    def _failed(self, now: float) -> Invocation:
        match self.hook.at_failure:
            case OnFailure.FAIL:
                return self._ended(End.FAILED, now)
            case OnFailure.WARN:
                return self._ended(End.PASSED_OVER, now)
        if self.hook.retries is not None and self.failures > self.hook.retries:
            return self._given_up(now)
        return self._again(self.hook.backoff_s * 2.0 ** min(self.failures - 1, 30), now)

    def _given_up(self, now: float) -> Invocation:
        fails = self.hook.at_deadline is OnDeadline.FAIL
        return self._ended(End.FAILED if fails else End.PASSED_OVER, now)

    def _again(self, pause_s: float, now: float) -> Invocation:
        pause_s = min(max(pause_s, LEAST_PAUSE_S), LONGEST_PAUSE_S)
        return dataclasses.replace(self, again_at=now + pause_s)

    def _ended(self, end: End, now: float) -> Invocation:
        return dataclasses.replace(self, end=end, ended_at=now)

    # ---- records -----------------------------------------------------------------

    def step(self) -> Step:
        """Return the step that stores the invocation in the journal."""
        failed = self.end is End.FAILED
        state = StepState.FAILED if failed else StepState.DONE
        return Step(
            id=self.id,
            operation_id=self.operation.id,
            cluster_id=self.operation.cluster_id,
            kind=STEP_KIND,
            state=StepState.INTENT if self.end is None else state,
            node_id=self.node_id,
            attempt=self.calls,
            token=self.id,
            started_at=self.since,
            deadline_at=self.deadline_at,
            ended_at=self.ended_at,
            result={
                'point': self.hook.point.value,
                'hook': self.hook.name,
                'end': self.end.value if self.end else None,
                'answers': self.answers,
                'failures': self.failures,
                'again_at': self.again_at,
                'message': self.message,
                'outcome': self.outcome.value if self.outcome else None,
            },
            cause=self.cause() if failed else None,
        )

    def cause(self) -> Cause:
        """Return why the hook failed, or why it blocks the operation."""
        if self.end is End.FAILED:
            return Cause(
                code='hook_failed',
                message=f'Hook {self.hook} failed: {self.message}.',
                hint="Resolve the reported problem, then run 'kiln cluster retry'.",
            )
        said = self.message or 'it was called and has not answered'
        todo = 'Wait for the hook'
        if self.failures:
            todo = 'Resolve the reported problem'
        elif self.message:
            todo = 'Wait: the hook asked to be called again, and kiln does that by itself'
        return Cause(
            code='hook',
            message=f'Hook {self.hook} blocks the operation: {said}.',
            hint=f'{todo}, or skip it: '
            f'kiln hook skip {self.operation.id} {self.hook} --reason REASON.',
        )
