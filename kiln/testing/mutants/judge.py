"""Judgement of one mutant by the behaviours of the kit, up to the first that fails."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import signal
import time
import unittest
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from kiln.testing.conformance import sweep
from kiln.testing.mutants.loading import forget, import_changed
from kiln.testing.mutants.reach import Recorder, name_of
from kiln.testing.mutants.subject import Subject
from kiln.testing.mutants.verdicts import Fate, Verdict
from kiln.testing.report import BehaviourOutcome
from kiln.testing.runner import show


def judge(
    subject: Subject,
    changed: tuple[str, str] | None,
    *,
    dependents: Collection[str],
    behaviours: Mapping[str, float] | None,
    prefix: str,
) -> Verdict:
    """Return the verdict on a driver with a changed module, or on the driver as it is.

    ``changed`` is the name of the module and its new source. This process is good for
    nothing else afterwards. ``behaviours`` are tried in this order, and an alarm ends this
    process if one takes longer than its seconds. Without any, all are tried, and the verdict
    has what each of them calls.
    """
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(Recorder(dependents)) if behaviours is None else None
        try:
            if changed is not None:
                import_changed(*changed, dependents)
                importlib.import_module(changed[0])
            else:
                # Also what is called by an import is recorded.
                forget(dependents)
            judges = subject.judges()
            for one in judges:
                stack.callback(one.doClassCleanups)
                one.prefix = prefix  # type: ignore[attr-defined]
                one.setUpClass()
                stack.callback(one.tearDownClass)
        # Wrong source can raise anything; a test class needs its driver to be imported and set up.
        except Exception as exc:
            return Verdict(fate=Fate.BROKEN, reason=_told(exc))
        cases = {name_of(case): case for one in judges for case in map(one, _names(one))}
        if recorder is None:
            return _run(_timed(cases, behaviours or {}), started)
        verdict = _run(recorder.each(cases.values()), started)
        return dataclasses.replace(verdict, reach=recorder.reach())


def clean_up(subject: Subject, prefix: str) -> None:
    """Remove what a mutant has built in a backend that still exists, and not removed."""
    for one in subject.judges():
        case: Any = one(next(_names(one)))
        case.prefix = prefix
        with contextlib.ExitStack() as stack:
            stack.callback(case.doCleanups)
            case.setUp()
            sweep.remains(case.driver, prefix, case.time, case.timeout_s)


def _timed(
    cases: Mapping[str, unittest.TestCase], limits_s: Mapping[str, float]
) -> Iterator[unittest.TestCase]:
    for name, limit_s in limits_s.items():
        if name in cases:
            # Without a handler, which would wait for a call that does not end.
            signal.setitimer(signal.ITIMER_REAL, limit_s)
            yield cases[name]
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


def _names(judge_class: type[unittest.TestCase]) -> Iterator[str]:
    return iter(unittest.defaultTestLoader.getTestCaseNames(judge_class))


def _told(exc: Exception) -> str:
    return f'{type(exc).__name__}: {exc}'
