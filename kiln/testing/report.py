"""Conformance report, as data and as text."""

from __future__ import annotations

import collections
import dataclasses
import enum
import itertools
from collections.abc import Iterable, Iterator
from typing import Any


def failure(expected: str, seen: str, read: Iterable[object] = ()) -> str:
    """Return the text of a failure: what was expected, what was seen, what to read.

    ``read`` has the methods, classes and modules of the contract that make the promise.
    """
    places = ', '.join(dict.fromkeys(map(_place, read)))
    lines = (('Expected', expected), ('Seen instead', seen), ('Read', places))
    return '\n'.join(f'{title}: {text.rstrip(".")}.' for title, text in lines if text)


def _place(promise: Any) -> str:
    # A property is known by its function; a module has no other name than its own.
    named = getattr(promise, 'fget', promise)
    name: str = getattr(named, '__qualname__', named.__name__)
    return name


class BehaviourOutcome(enum.StrEnum):
    """Outcome of a behaviour."""

    PASSED = 'passed'
    FAILED = 'failed'
    # Neither passed nor failed: the test environment could not show it.
    NOT_SHOWN = 'not_shown'
    # Not run at all: the driver does not have the form that all behaviours need.
    NOT_RUN = 'not_run'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BehaviourResult:
    """Result of one behaviour."""

    name: str
    sentence: str
    subject: str
    outcome: BehaviourOutcome
    reason: str = ''
    seconds: float = 0.0


class Verdict(enum.StrEnum):
    """What a run as a whole says about a driver."""

    PASSED = 'passed'
    FAILED = 'failed'
    # Nothing failed, and too little was shown for a pass.
    NOT_SHOWN = 'not_shown'


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConformanceReport:
    """Results of all selected behaviours, in the order of the kit."""

    driver: str
    results: tuple[BehaviourResult, ...]
    #: Ids of instances that this run built and could not remove.
    left_behind: tuple[str, ...] = ()
    #: The subjects of which most must be shown; without any, all of them together.
    essential: frozenset[str] = frozenset()
    #: What an author can do to have more shown.
    advice: str = ''
    #: The behaviour that was running when the run was interrupted; empty if it was not.
    interrupted_in: str = ''
    #: Seconds that the whole run took; None if behaviours ran one after the other.
    took_s: float | None = None

    @property
    def ok(self) -> bool:
        """True if most was shown, nothing failed, and nothing was left behind."""
        return self.verdict is Verdict.PASSED

    @property
    def verdict(self) -> Verdict:
        """The verdict; a run that shows too little is not a pass."""
        if self.of(BehaviourOutcome.FAILED) or self.left_behind:
            return Verdict.FAILED
        if self.interrupted_in:
            return Verdict.NOT_SHOWN
        if 2 * len(self.hidden) > len(self._judged) or not self.of(BehaviourOutcome.PASSED):
            return Verdict.NOT_SHOWN
        return Verdict.PASSED

    @property
    def hidden(self) -> tuple[BehaviourResult, ...]:
        """The results of the essential behaviours that were not shown."""
        return tuple(one for one in self._judged if one.outcome is BehaviourOutcome.NOT_SHOWN)

    @property
    def _judged(self) -> tuple[BehaviourResult, ...]:
        return tuple(
            one for one in self.results if not self.essential or one.subject in self.essential
        )

    @property
    def seconds(self) -> float:
        """The seconds that the whole run took."""
        return sum(one.seconds for one in self.results) if self.took_s is None else self.took_s

    def of(self, outcome: BehaviourOutcome) -> frozenset[str]:
        """Return the names of the behaviours with an outcome."""
        return frozenset(one.name for one in self.results if one.outcome is outcome)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            'driver': self.driver,
            'ok': self.ok,
            **{outcome.value: len(self.of(outcome)) for outcome in BehaviourOutcome},
            'verdict': self.verdict.value,
            'seconds': self.seconds,
            'interrupted_in': self.interrupted_in,
            'advice': self.advice if self.hidden else '',
            'left_behind': list(self.left_behind),
            'results': [
                {**dataclasses.asdict(one), 'outcome': one.outcome.value} for one in self.results
            ],
        }

    def render(self) -> str:
        """Return the report as text, grouped by subject."""
        return '\n'.join(self._lines())

    def _lines(self) -> Iterator[str]:
        marks = {
            BehaviourOutcome.PASSED: ' ok ',
            BehaviourOutcome.FAILED: 'FAIL',
            BehaviourOutcome.NOT_SHOWN: ' -- ',
        }
        # One line counts those that were not run: each has the same reason.
        ran = [one for one in self.results if one.outcome in marks]
        for subject, results in itertools.groupby(ran, lambda one: one.subject):
            yield subject
            for one in results:
                yield f'  {marks[one.outcome]}  {one.sentence}'
                for line in one.reason.splitlines():
                    yield f'          {line}'
            yield ''
        not_run = len(self.of(BehaviourOutcome.NOT_RUN))
        because = f'{not_run} not run because of the failure, ' if not_run else ''
        yield (
            f'{self.driver}: {len(self.of(BehaviourOutcome.PASSED))} behaviours shown, '
            f'{len(self.of(BehaviourOutcome.FAILED))} failed, {because}'
            f'{len(self.of(BehaviourOutcome.NOT_SHOWN))} cannot be shown here, in '
            f'{self.seconds:.1f} s.'
        )
        if self.interrupted_in:
            yield f'Interrupted in: {self.interrupted_in}. The behaviours after it were not run.'
        elif self.verdict is Verdict.NOT_SHOWN:
            yield from self._not_a_pass()
        elif self.hidden and self.advice:
            yield self.advice
        if self.left_behind:
            yield f'Left behind, delete by hand: {", ".join(self.left_behind)}.'

    def _not_a_pass(self) -> Iterator[str]:
        """Yield how much was not shown, why, and what can be done."""
        what = "the driver's own engine" if self.essential else 'the driver'
        yield (
            f'This is not a pass: of {len(self._judged)} behaviours of {what}, '
            f'{len(self.hidden)} were not shown.'
        )
        for reason, count in collections.Counter(one.reason for one in self.hidden).items():
            yield f'{count:>5}  {reason}'
        if self.advice:
            yield self.advice
