"""How one behaviour is run without a test runner, and what is made of its end."""

from __future__ import annotations

import fnmatch
import time
import unittest
from types import TracebackType

from kiln.testing.conformance.report.report import BehaviourOutcome, BehaviourResult


def fits(pattern: str, subject: str, name: str) -> bool:
    """Whether a pattern means a behaviour: by its name, or by its subject."""
    return any(fnmatch.fnmatchcase(one, pattern) for one in (subject, subject.lower(), name))


class _Verdict(unittest.TestResult):
    """Hears how one test case ends."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome = BehaviourOutcome.PASSED
        self.reason = ''

    def addError(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        """Note an error of the driver, or of the behaviour's own making."""
        self._fail(f'{type(err[1]).__name__}: {err[1]}')

    def addFailure(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        """Note a promise that was not kept."""
        self._fail(str(err[1]))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        """Note that there was no means to show it."""
        self.outcome, self.reason = BehaviourOutcome.NOT_SHOWN, f'Cannot be shown here: {reason}.'

    def addSubTest(  # noqa: N802
        self, test: unittest.TestCase, subtest: unittest.TestCase, err: _Error | None
    ) -> None:
        """Note what went wrong with one of several things that were tried."""
        if err is not None:
            self._fail(f'{subtest._subDescription()}: {err[1]}')  # type: ignore[attr-defined]

    def _fail(self, reason: str) -> None:
        # The first thing that goes wrong tells more than what follows from it.
        if self.outcome is not BehaviourOutcome.FAILED:
            self.outcome, self.reason = BehaviourOutcome.FAILED, reason


_Error = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


def show(case: unittest.TestCase, subject: str, name: str) -> BehaviourResult:
    """Run one behaviour, and return how it came out."""
    verdict = _Verdict()
    started = time.monotonic()
    try:
        case.run(verdict)
    except BaseException:
        # Ctrl-C passes the test case by, cleanups and all.
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
