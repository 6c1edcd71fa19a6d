"""Conformance report, as data and as text."""

from __future__ import annotations

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConformanceReport:
    """Results of all selected behaviours, in the order of the kit."""

    driver: str
    results: tuple[BehaviourResult, ...]
    #: Ids of instances that this run built and could not remove.
    left_behind: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if a behaviour passed, none failed, and nothing was left behind."""
        return bool(self.of(BehaviourOutcome.PASSED)) and not self.of(
            BehaviourOutcome.FAILED
        ) | set(self.left_behind)

    def of(self, outcome: BehaviourOutcome) -> frozenset[str]:
        """Return the names of the behaviours with an outcome."""
        return frozenset(one.name for one in self.results if one.outcome is outcome)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            'driver': self.driver,
            'ok': self.ok,
            **{outcome.value: len(self.of(outcome)) for outcome in BehaviourOutcome},
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
        seconds = sum(one.seconds for one in self.results)
        not_run = len(self.of(BehaviourOutcome.NOT_RUN))
        because = f'{not_run} not run because of the failure, ' if not_run else ''
        yield (
            f'{self.driver}: {len(self.of(BehaviourOutcome.PASSED))} behaviours shown, '
            f'{len(self.of(BehaviourOutcome.FAILED))} failed, {because}'
            f'{len(self.of(BehaviourOutcome.NOT_SHOWN))} cannot be shown here, in {seconds:.1f} s.'
        )
        if self.left_behind:
            yield f'Left behind, delete by hand: {", ".join(self.left_behind)}.'
