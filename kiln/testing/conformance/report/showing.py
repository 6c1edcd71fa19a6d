"""Runner of one behaviour that turns its end into a result."""

from __future__ import annotations

import fnmatch
import time
import unittest
from types import TracebackType

from kiln.testing.conformance.report.report import BehaviourOutcome, BehaviourResult


def fits(pattern: str, subject: str, name: str) -> bool:
    """Return True if a pattern matches a behaviour by name or by subject."""
    return any(fnmatch.fnmatchcase(one, pattern) for one in (subject, subject.lower(), name))


class _Verdict(unittest.TestResult):
    """Collects the outcome of one test case."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome = BehaviourOutcome.PASSED
        self.reason = ''

    def addError(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        """Record an error of the driver or of the behaviour."""
        self._fail(f'{type(err[1]).__name__}: {err[1]}')

    def addFailure(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        """Record a broken promise."""
        self._fail(str(err[1]))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        """Record that the behaviour cannot be shown here."""
        self.outcome, self.reason = BehaviourOutcome.NOT_SHOWN, f'Cannot be shown here: {reason}.'

    def addSubTest(  # noqa: N802
        self, test: unittest.TestCase, subtest: unittest.TestCase, err: _Error | None
    ) -> None:
        """Record the failure of a subtest."""
        if err is not None:
            self._fail(f'{subtest._subDescription()}: {err[1]}')  # type: ignore[attr-defined]

    def _fail(self, reason: str) -> None:
        # The first failure explains more than its consequences.
        if self.outcome is not BehaviourOutcome.FAILED:
            self.outcome, self.reason = BehaviourOutcome.FAILED, reason


_Error = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


def show(case: unittest.TestCase, subject: str, name: str) -> BehaviourResult:
    """Run one behaviour, and return its result."""
    verdict = _Verdict()
    started = time.monotonic()
    try:
        case.run(verdict)
    except BaseException:
        # Ctrl-C skips the cleanups of the test case.
        case.doCleanups()
        raise
    return BehaviourResult(
        name=name,
        sentence=name.removeprefix('test_').replace('_', ' '),
        subject=subject,
        outcome=verdict.outcome,
        reason=verdict.reason,
        seconds=time.monotonic() - started,
    )
