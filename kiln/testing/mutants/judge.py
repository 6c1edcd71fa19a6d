"""Judgement of one mutant by the behaviours of the kit, up to the first that fails."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import threading
import time
import unittest
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from kiln.testing.mutants.subject import Changed, Subject
from kiln.testing.mutants.verdicts import Fate, Verdict
from kiln.testing.report import BehaviourOutcome
from kiln.testing.runner import show


def judge(
    subject: Subject,
    changed: Changed | None,
    *,
    first: Sequence[str],
    prefix: str,
) -> Verdict:
    """Return the verdict on a driver with a changed module or file, or on it as it is.

    ``changed`` is the name of the module and its new text. This process is good for
    nothing else afterwards. The behaviours ``first`` are tried before all others.
    """
    started = time.monotonic()
    try:
        if changed is not None:
            subject = subject.changed(changed)
        judges = subject.judges()
    # Wrong source can raise anything; a test class cannot be imported without its driver.
    except Exception as exc:
        return Verdict(fate=Fate.BROKEN, reason=_told(exc))
    with contextlib.ExitStack() as stack:
        for one in judges:
            stack.callback(one.doClassCleanups)
            one.prefix = prefix  # type: ignore[attr-defined]
            one.setUpClass()
            stack.callback(one.tearDownClass)
        if changed is not None:
            return _run(_in_order(judges, first), started)
        with calls_recorded(subject.own) as ran:
            verdict = _run(_in_order(judges, first), started)
        return dataclasses.replace(verdict, ran=frozenset(ran))


@contextlib.contextmanager
def calls_recorded(own: Callable[[str], str | None]) -> Iterator[set[str]]:
    """Record which functions of a driver are called, on any thread.

    ``own`` returns the name of a module if it is the driver's.
    """
    ran: set[str] = set()
    own = functools.cache(own)

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == 'call':
            module = own(str(frame.f_globals.get('__name__')))
            if module is not None:
                ran.add(f'{module}:{frame.f_code.co_qualname.replace("<locals>.", "")}')

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        yield ran
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _run(cases: Iterator[unittest.TestCase], started: float) -> Verdict:
    passed = 0
    for case in cases:
        result = show(case, '')
        passed += result.outcome is BehaviourOutcome.PASSED
        if result.outcome is BehaviourOutcome.FAILED:
            return Verdict(
                fate=Fate.CAUGHT,
                behaviour=_id(case),
                reason=result.reason,
                passed=passed,
                seconds=time.monotonic() - started,
            )
    return Verdict(fate=Fate.SURVIVED, passed=passed, seconds=time.monotonic() - started)


def _in_order(
    judges: Sequence[type[unittest.TestCase]], first: Sequence[str]
) -> Iterator[unittest.TestCase]:
    cases = {_id(case): case for one in judges for case in map(one, _names(one))}
    wanted = [name for name in first if name in cases]
    yield from (cases[name] for name in dict.fromkeys([*wanted, *cases]))


def _names(judge_class: type[unittest.TestCase]) -> Iterator[str]:
    return iter(unittest.defaultTestLoader.getTestCaseNames(judge_class))


def _id(case: unittest.TestCase) -> str:
    return f'{type(case).__name__}.{case.id().rpartition(".")[2]}'


def _told(exc: Exception) -> str:
    return f'{type(exc).__name__}: {exc}'
