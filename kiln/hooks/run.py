"""Hook run: all hooks of one point of an operation, and the next call; no I/O.

The state is in the journal. After a crash, the next worker repeats the calls that were
running, under the same keys, and never calls a hook again that had succeeded.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping, Sequence

from kiln.clusters.models import Cause, Operation, Step
from kiln.hooks.hook import Hook, in_order
from kiln.hooks.invocation import Call, End, Invocation
from kiln.hooks.payload import Outcome
from kiln.hooks.points import Point
from kiln.hooks.replies import Answer

#: Kind of the event with which a user skips a hook.
SKIP_EVENT = 'hook-skip'


class Standing(enum.StrEnum):
    """State of a point: open, passed or failed."""

    OPEN = 'open'
    PASSED = 'passed'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Skip:
    """Request of a user to skip a hook."""

    #: NAME, or POINT/NAME.
    name: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Notice:
    """A report to users about a hook."""

    kind: str
    message: str
    #: The same for programs: the hook, its key, and the time of its first call.
    facts: Mapping[str, object]


@dataclasses.dataclass(slots=True)
class Advance:
    """Steps to write first, then notices to report and calls to make."""

    #: Steps by ID.
    steps: dict[str, Step] = dataclasses.field(default_factory=dict)
    calls: list[Call] = dataclasses.field(default_factory=list)
    notices: list[Notice] = dataclasses.field(default_factory=list)


class HookRun:
    """The hooks of a point, called one after the other.

    At a pre_ point, the first failed hook ends the run. Then the hooks that had
    succeeded are undone: the hooks of the same names at the partner point are all
    called with ``outcome=failed``, even if one of them fails. At a post_ point, all
    hooks are called, even if one of them fails.
    """

    def __init__(
        self,
        point: Point,
        hooks: Iterable[Hook],
        operation: Operation,
        *,
        node_id: str | None = None,
        journal: Mapping[str, Step],
    ) -> None:
        """Begin, or resume from the steps of the journal, which are given by ID."""
        self._point = point
        hooks = tuple(hooks)

        def known(hook: Hook, outcome: Outcome | None) -> Invocation:
            one = Invocation(hook=hook, operation=operation, node_id=node_id, outcome=outcome)
            step = journal.get(one.id)
            return one.resumed(step) if step else one

        outcome = None if point.before else Outcome.SUCCEEDED
        self._found = [known(hook, outcome) for hook in in_order(hooks, point)]
        self._undoing = [
            known(hook, Outcome.FAILED)
            for hook in (in_order(hooks, point.partner) if point.partner else ())
        ]
        # A hook that was undone is called again.
        undone = {one.hook.name for one in self._undoing if one.calls and not one.begun}
        self._found = [
            one.renewed()
            if one.hook.name in undone and one.end is End.OK and one.before_retry
            else one
            for one in self._found
        ]
        # Calls made by this process that are not answered; empty after a crash.
        self._out: set[str] = set()

    # ---- state -----------------------------------------------------------------

    @property
    def standing(self) -> Standing:
        """State of the point; a failed point stays open until everything is undone."""
        if self._current() is not None:
            return Standing.OPEN
        return Standing.FAILED if self._failed() else Standing.PASSED

    @property
    def cause(self) -> Cause | None:
        """Why the point failed, or which hook blocks it; None if it is passed."""
        one = self._failed() or self._current()
        return one.cause() if one else None

    @property
    def wake_at(self) -> float:
        """When ``advance`` is due if no answer arrives; seconds since the epoch."""
        one = self._current()
        if one is None:
            return math.inf
        return one.deadline_at if one.id in self._out else min(one.again_at, one.deadline_at)

    @property
    def invocations(self) -> Sequence[Invocation]:
        """All invocations, in the order of their calls."""
        return [*self._found, *(self._to_undo() if self._failed() else ())]

    def _failed(self) -> Invocation | None:
        return next((one for one in self._found if one.end is End.FAILED), None)

    def _current(self) -> Invocation | None:
        """Return the invocation to call or wait for; None if all have ended."""
        failed = self._failed()
        if failed is None or not self._point.before:
            return next((one for one in self._found if one.end is None), None)
        return next((one for one in self._to_undo() if one.end is None), None)

    def _to_undo(self) -> list[Invocation]:
        done = {one.hook.name for one in self._found if one.end is End.OK}
        return [one for one in self._undoing if one.hook.name in done]

    # ---- transitions -------------------------------------------------------------

    def learn(self, invocation: str, answer: Answer, now: float) -> Advance:
        """Apply an answer; return what to write and report."""
        advance = Advance()
        self._out.discard(invocation)
        for one in self.invocations:
            # An answer after the deadline, or after a skip, changes nothing.
            if one.id == invocation and one.end is None:
                self._change(one, one.answered(answer, now), advance)
        return advance

    def advance(self, now: float, skips: Sequence[Skip] = ()) -> Advance:
        """Return what to write and call now; empty while the run waits.

        Make each call after its step is written, and pass its answer to ``learn``.
        """
        advance = Advance()
        self._pass_over(skips, now, advance)
        while (one := self._current()) is not None:
            if one.is_later(now):
                self._change(one, one.date_back(now), advance)
            elif self._is_late(one, now):
                self._change(one, one.late(now), advance)
            elif one.id in self._out or one.waits(now):
                break
            else:
                called = one.called(now)
                self._change(one, called, advance)
                self._out.add(one.id)
                advance.calls.append(Call(one.hook, one.id, called.calls, one.outcome))
        return advance

    def _is_late(self, one: Invocation, now: float) -> bool:
        # A call recorded by another process might never have been made.
        was_called = one.begun and (not one.unanswered or one.id in self._out)
        return was_called and now >= one.deadline_at

    def _pass_over(self, skips: Sequence[Skip], now: float, advance: Advance) -> None:
        for one in self.invocations if skips else ():
            # Without a partner nothing is undone, so a failed hook only blocks: it can be skipped.
            refuses = one.end is End.FAILED and self._point.partner is None
            skip = next((skip for skip in skips if one.hook.is_named(skip.name)), None)
            if skip is not None and (one.end is None or refuses):
                self._change(one, one.skipped(skip.reason, now), advance)

    def _change(self, old: Invocation, new: Invocation, advance: Advance) -> None:
        for known in (self._found, self._undoing):
            known[:] = [new if one is old else one for one in known]
        advance.steps[new.id] = new.step()
        kind = _TOLD.get(new.end)
        # A repeated message is not reported again.
        if kind and (new.end is not None or new.message != old.message):
            facts = {'hook': str(new.hook), 'invocation': new.id, 'since': new.since}
            advance.notices.append(Notice(kind, f'{new.hook}: {new.message}', facts))


_TOLD = {
    None: 'hook-blocked',
    End.FAILED: 'hook-failed',
    End.PASSED_OVER: 'hook-passed-over',
    End.SKIPPED: 'hook-skipped',
}
