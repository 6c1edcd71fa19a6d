"""Judgement of many mutants, several side by side."""

from __future__ import annotations

import collections
import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Self

from kiln.exceptions import KilnError
from kiln.testing.mutants.mutants import Mutant
from kiln.testing.mutants.reach import Reach
from kiln.testing.mutants.subject import Subject
from kiln.testing.mutants.verdicts import Fate, Verdict
from kiln.testing.mutants.worker import PROGRAM, Task

#: Called with each mutant and its verdict, as they come.
Progress = Callable[[Mutant, Verdict], None]
#: Seconds for a mutant or a behaviour, and how often it may take that of the right driver.
_LEAST_S, _TIMES = 10.0, 5
_LONGEST_S = 3600.0
#: How many behaviours that caught others are tried first.
_FIRST = 30


class DriverFails(KilnError):
    """The driver fails the kit as it is, so its mutants cannot be judged."""

    code = 'driver_fails'
    remedy = 'Repair it first: kiln driver test shows each behaviour that fails.'


def judge_all(
    subject: Subject,
    mutants: Sequence[Mutant],
    *,
    jobs: int = 1,
    limit_s: float | None = None,
    progress: Progress | None = None,
) -> list[Verdict]:
    """Return the verdict on each mutant, in their order.

    ``jobs`` are judged side by side. Without a limit, a mutant gets a few times as long as
    the driver itself. Those that a limit ends are judged once more at the end, no more
    at a time than there are processors.

    :raises DriverFails: the driver as it is does not pass.
    """
    order = _Order()
    with contextlib.ExitStack() as stack:
        # Left last: its threads end when the workers do.
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        count = max(1, min(jobs, len(mutants)))
        every = [stack.enter_context(_Worker(subject)) for _ in range(count)]
        # On an interruption, those that wait are not begun.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        right = _of_the_driver(subject, every, pool)
        workers: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for one in every:
            workers.put(one)
        least_s = _LEAST_S + subject.patience_s
        limit_s = limit_s or least_s + _TIMES * right.seconds

        def judged(mutant: Mutant) -> Verdict:
            calling = right.reach.of(mutant.place if mutant.in_function else None)
            if not calling:
                verdict = Verdict(fate=Fate.NOT_RUN)
                order.learn(mutant, verdict, progress)
                return verdict
            worker = workers.get()
            try:
                task = Task(
                    changed=(mutant.module, mutant.source),
                    behaviours={
                        name: least_s + _TIMES * calling[name]
                        for name in order.of(mutant, calling)
                    },
                    limit_s=limit_s,
                )
                verdict = worker.judge(task)
            finally:
                workers.put(worker)
            order.learn(mutant, verdict, progress)
            return verdict

        verdicts = list(pool.map(judged, mutants))
        # On a busy machine a behaviour can be late that is right: with a processor each it is not.
        for _ in range(count - (os.cpu_count() or 1)):
            workers.get()
        late = [one for one, verdict in zip(mutants, verdicts, strict=True)
                if verdict.fate is Fate.TIMED_OUT]  # fmt: skip
        again = dict(zip(late, pool.map(judged, late), strict=True))
        return [again.get(one, verdict) for one, verdict in zip(mutants, verdicts, strict=True)]


def _of_the_driver(subject: Subject, workers: Sequence[_Worker], pool: Executor) -> Verdict:
    """Judge the driver as it is; the time that its behaviours take is part of the verdict."""

    def shown(part: int) -> Verdict:
        task = Task(changed=None, part=(part, len(workers)), limit_s=_LONGEST_S)
        return workers[part].judge(task)

    verdicts = list(pool.map(shown, range(len(workers))))
    wrong = next((one for one in verdicts if one.caught), None)
    if wrong or not any(one.passed for one in verdicts):
        raise DriverFails(
            f'Cannot judge mutants of {subject.name}: the driver itself fails '
            f'{(wrong and wrong.behaviour) or "the kit"}: '
            f'{(wrong and wrong.reason) or "no behaviour is shown."}'
        )
    return Verdict(
        fate=Fate.SURVIVED,
        passed=sum(one.passed for one in verdicts),
        seconds=sum(one.seconds for one in verdicts),
        reach=Reach.union(one.reach for one in verdicts),
    )


class _Order:
    """Learns which behaviours catch mutants; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here: dict[str, collections.Counter[str]] = {}
        self._anywhere: collections.Counter[str] = collections.Counter()

    def of(self, mutant: Mutant, behaviours: Collection[str]) -> tuple[str, ...]:
        """Return behaviours in another order: those most likely to catch a mutant first."""
        with self._lock:
            here = self._here.get(mutant.place, collections.Counter())
            ranked = [*here.most_common(_FIRST), *self._anywhere.most_common(_FIRST)]
        likely = [name for name, _ in ranked if name in behaviours]
        return tuple(dict.fromkeys([*likely, *behaviours]))

    def learn(self, mutant: Mutant, verdict: Verdict, progress: Progress | None) -> None:
        """Remember what caught a mutant, and report it."""
        with self._lock:
            if verdict.behaviour:
                here = self._here.setdefault(mutant.place, collections.Counter())
                here[verdict.behaviour] += 1
                self._anywhere[verdict.behaviour] += 1
            if progress is not None:
                progress(mutant, verdict)


class _Worker:
    """A running worker program; ``judge`` takes one task at a time."""

    def __init__(self, subject: Subject) -> None:
        self._program = subprocess.Popen(  # noqa: S603  # this interpreter
            [sys.executable, '-c', PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for the parent, which ends it.
            start_new_session=True,
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
        )
        self._send(subject)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the program, and what it judges."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait()
        self._program.stdout.close()

    def judge(self, task: Task) -> Verdict:
        """Return the verdict on a task."""
        self._send(task)
        assert self._program.stdout is not None
        verdict: Verdict = pickle.load(self._program.stdout)  # noqa: S301  # our own
        return verdict

    def _send(self, words: Subject | Task) -> None:
        assert self._program.stdin is not None
        pickle.dump(words, self._program.stdin)
        self._program.stdin.flush()
