"""Judgement of one mutant by the behaviours of the kit, up to the first that fails."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import signal
import time
import unittest
from collections.abc import Iterable, Iterator, Mapping

from kiln.testing.mutants.reach import Recorder, name_of
from kiln.testing.mutants.subject import Changed, Subject
from kiln.testing.mutants.verdicts import Fate, Verdict
from kiln.testing.report import BehaviourOutcome
from kiln.testing.runner import show

#: How much longer a behaviour can take on a busy machine, which gives it little time.
_BUSY_TIMES = 5
#: The behaviours that judge a driver, by their names.
Cases = Mapping[str, unittest.TestCase]
#: The number of a part, from 0, and the number of all parts.
Part = tuple[int, int]


def judge(
    subject: Subject, changed: Changed, *, behaviours: Mapping[str, float], prefix: str
) -> Verdict:
    """Return the verdict on a driver with a changed module or file.

    ``changed`` is the name of the module and its new text. This process is good for
    nothing else afterwards. ``behaviours`` are tried in this order, and a signal ends this
    process if one takes more time of the processor than its seconds, or waits for long.
    """
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        # Wrong source can raise anything; a test class needs its driver to be set up.
        try:
            cases = _prepared(subject.changed(changed), prefix, stack)
        except Exception as exc:
            return _broken(exc)
        return _run(_timed(cases, behaviours), started)


def survey(subject: Subject, *, part: Part, prefix: str) -> Verdict:
    """Return the verdict on a driver as it is, by its behaviours, and what each of them calls.

    ``part`` has the number of a part of the behaviours, and how many parts there are.
    """
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        try:
            # Imported again, so that what an import calls is recorded, too.
            fresh = subject.fresh()
            recorder = stack.enter_context(Recorder(fresh.own))
            cases = _prepared(fresh, prefix, stack)
        except Exception as exc:
            return _broken(exc)
        number, parts = part
        # Neighbours stay together, as they share what is made once.
        first, last = (len(cases) * one // parts for one in (number, number + 1))
        some = itertools.islice(cases.values(), first, last)
        verdict = _run(recorder.each(some), started)
        return dataclasses.replace(verdict, reach=recorder.reach())


def _prepared(subject: Subject, prefix: str, stack: contextlib.ExitStack) -> Cases:
    """Return the behaviours of test classes that are set up, until the stack is left."""
    judges = subject.judges()
    for one in judges:
        stack.callback(one.doClassCleanups)
        one.prefix = prefix  # type: ignore[attr-defined]
        one.setUpClass()
        stack.callback(one.tearDownClass)
    names = unittest.defaultTestLoader.getTestCaseNames
    cases: dict[str, unittest.TestCase] = {}
    for case in (case for one in judges for case in map(one, names(one))):
        if name_of(case) in cases:
            raise ValueError(f'two tests have the name {name_of(case)}: rename one')
        cases[name_of(case)] = case
    return cases


def _timed(cases: Cases, limits_s: Mapping[str, float]) -> Iterator[unittest.TestCase]:
    for name, limit_s in limits_s.items():
        if name in cases:
            # Without a handler, which would wait for a call that does not end.
            signal.setitimer(signal.ITIMER_PROF, limit_s)
            signal.setitimer(signal.ITIMER_REAL, _BUSY_TIMES * limit_s)
            yield cases[name]
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)


def _run(cases: Iterable[unittest.TestCase], started: float) -> Verdict:
    passed = 0
    for case in cases:
        result = show(case, '')
        passed += result.outcome is BehaviourOutcome.PASSED
        if result.outcome is BehaviourOutcome.FAILED:
            return Verdict(
                fate=Fate.CAUGHT,
                behaviour=name_of(case),
                reason=result.reason,
                passed=passed,
                seconds=time.monotonic() - started,
            )
    return Verdict(fate=Fate.SURVIVED, passed=passed, seconds=time.monotonic() - started)


def _broken(exc: Exception) -> Verdict:
    return Verdict(fate=Fate.BROKEN, reason=f'{type(exc).__name__}: {exc}')
