"""Behaviours of both kits: the base of their fixtures, and a runner that returns results."""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import time
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.testing.report import (
    BehaviourOutcome,
    BehaviourResult,
    ConformanceReport,
    failure,
)

if TYPE_CHECKING:
    # For the type checker only: with a real base every test runner
    # would collect the kit itself wherever a vendor imports it.
    _TestCase = unittest.TestCase
else:
    _TestCase = object

# Test runners then leave these functions out of tracebacks, as they do with unittest's.
__unittest = True

#: Called with the result of each behaviour as it ends.
Progress = Callable[[BehaviourResult], None]
#: The class of a behaviour, its subject, and the name of its method.
Behaviour = tuple[type, str, str]


class Interrupted(KeyboardInterrupt):
    """Raised when a run is interrupted; has the report of what ran until then."""

    def __init__(self, results: Iterable[BehaviourResult], running: str) -> None:
        super().__init__()
        self.results = tuple(results)
        #: The sentence of the behaviour that was running.
        self.running = running
        #: Set by the kit, which knows the driver.
        self.report: ConformanceReport | None = None


class Behaviours(_TestCase):
    """Base of the fixtures of both kits."""

    #: Seconds within which every call must return, on each of the clocks.
    soon_s: float = 5.0
    clocks: Sequence[Clock] = (SYSTEM_CLOCK,)
    #: The rule that a call breaks which returns later.
    soon_rule: str
    #: False once a behaviour has found that it is about drivers of another kind.
    applies: bool = True
    #: What to read about the promises of a subject: methods and classes of its contract.
    contract: ClassVar[tuple[object, ...]] = ()

    def __init_subclass__(cls, *, contract: tuple[object, ...] = (), **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if contract:
            cls.contract = contract

    @contextlib.contextmanager
    def soon(self, call: str) -> Iterator[None]:
        """Fail unless the block ends within ``soon_s``."""
        started = [clock.monotonic() for clock in self.clocks]
        yield
        took_s = max(
            clock.monotonic() - then for clock, then in zip(self.clocks, started, strict=True)
        )
        if took_s >= self.soon_s:
            self.broken(
                f'{call} returns within {self.soon_s:g} s (soon_s)',
                f'it took {took_s:.1f} s: {self.soon_rule}',
            )

    def broken(self, expected: str, seen: str) -> NoReturn:
        """Fail because a promise is not kept."""
        self.fail(failure(expected, seen, self.read()))

    def not_for_this_driver(self, why: str) -> NoReturn:
        """End a behaviour that is about drivers of another kind; reports do not list it."""
        self.applies = False
        raise unittest.SkipTest(why)

    def read(self) -> tuple[object, ...]:
        """Return what to read about the promise: of the behaviour, or of its subject."""
        suite = self.suite()
        behaviour = vars(suite).get(self._testMethodName)
        of_behaviour: tuple[object, ...] = getattr(behaviour, 'contract', ())
        return of_behaviour or getattr(suite, 'contract', ())

    def suite(self) -> type:
        """Return the suite of the behaviour: a vendor's class has all of them as its bases."""
        name = self._testMethodName
        return next((one for one in type(self).__mro__ if name in vars(one)), type(self))

    def words_of(self, error: BaseException) -> str:
        """Return the text of the failure of a behaviour that ended with an error."""
        return f'{type(error).__name__}: {error}'


def subject_of(suite: type) -> str:
    """Return the subject of a suite, which begins its docstring."""
    return (suite.__doc__ or '').partition('.')[0]


def selected(suites: Iterable[type], select: Iterable[str] | None) -> Iterator[Behaviour]:
    """Yield the selected behaviours, in the order of the kit.

    ``select`` has names, also as reports print them, or subjects, with wildcards; None selects
    all.
    """
    wanted = ['*'] if select is None else list(select)
    for suite in suites:
        subject = subject_of(suite)
        for name in vars(suite):
            printed = name.removeprefix('test_').replace('_', ' ')
            known_as = (subject, subject.lower(), name, printed)
            fits = (fnmatch.fnmatchcase(one, pattern) for one in known_as for pattern in wanted)
            if name.startswith('test_') and any(fits):
                yield suite, subject, name


def run(
    given: type[unittest.TestCase], behaviours: Iterable[Behaviour], progress: Progress | None
) -> tuple[BehaviourResult, ...]:
    """Run behaviours; ``given`` is the filled-in fixture of the kit.

    :raises Interrupted: on Ctrl-C.
    """
    results: list[BehaviourResult] = []
    for (suite, subject), group in itertools.groupby(behaviours, lambda one: one[:2]):
        judged: Any = type(subject, (given, suite), {})
        try:
            for _, _, name in group:
                case = judged(name)
                try:
                    result = show(case, subject)
                except KeyboardInterrupt as exc:
                    raise Interrupted(results, _sentence(name)) from exc
                if not case.applies:
                    continue
                results.append(result)
                if progress is not None:
                    progress(result)
        finally:
            judged.doClassCleanups()
    return tuple(results)


def sentence_of(case: unittest.TestCase) -> str:
    """Return the promise that a behaviour shows, which is its name."""
    return _sentence(case.id().rpartition('.')[2])


def _sentence(name: str) -> str:
    return name.removeprefix('test_').replace('_', ' ')


def show(case: unittest.TestCase, subject: str) -> BehaviourResult:
    """Run one behaviour, and return its result."""
    verdict = _Verdict()
    started = time.monotonic()
    try:
        case.run(verdict)
    except BaseException:
        # Ctrl-C skips the cleanups of the test case.
        case.doCleanups()
        raise
    name = case.id().rpartition('.')[2]
    seconds = time.monotonic() - started
    return result_of((type(case), subject, name), verdict.outcome, verdict.reason, seconds)


def result_of(
    behaviour: Behaviour, outcome: BehaviourOutcome, reason: str, seconds: float = 0.0
) -> BehaviourResult:
    """Return the result of a behaviour."""
    _, subject, name = behaviour
    return BehaviourResult(
        name=name,
        sentence=_sentence(name),
        subject=subject,
        outcome=outcome,
        reason=reason,
        seconds=seconds,
    )


class _Verdict(unittest.TestResult):
    """Collects the outcome of one test case."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome = BehaviourOutcome.PASSED
        self.reason = ''

    def addError(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        # A cleanup of the class fails without a case.
        words_of = getattr(test, 'words_of', repr)
        self._fail(words_of(err[1]))

    def addFailure(self, test: unittest.TestCase, err: _Error) -> None:  # noqa: N802
        self._fail(str(err[1]))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        # A part of a behaviour can fail before another part cannot be shown.
        if self.outcome is not BehaviourOutcome.FAILED:
            reason = f'Cannot be shown here: {reason}.'
            self.outcome, self.reason = BehaviourOutcome.NOT_SHOWN, reason

    def addSubTest(  # noqa: N802
        self, test: unittest.TestCase, subtest: unittest.TestCase, err: _Error | None
    ) -> None:
        if err is not None:
            self._fail(f'{subtest._subDescription()}: {err[1]}')  # type: ignore[attr-defined]

    def _fail(self, reason: str) -> None:
        # The first failure explains more than its consequences.
        if self.outcome is not BehaviourOutcome.FAILED:
            self.outcome, self.reason = BehaviourOutcome.FAILED, reason


_Error = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]
