"""Program that judges mutants, each in a process of its own that ends at a time limit.

It has imported the kit and the driver once, and forks for each mutant. A process that forks
must have no other threads. Those who use it have some, so it is a program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from kiln.testing.mutants.judge import Part, judge, survey
from kiln.testing.mutants.subject import Changed, Subject
from kiln.testing.mutants.verdicts import Fate, Verdict

#: Time limit of the removal of what a mutant has left behind.
_CLEAN_UP_S = 120.0
#: Signals that end a behaviour at its limit.
_ALARMS = (signal.SIGALRM, signal.SIGPROF)
#: Runs :func:`main`.
PROGRAM = 'from kiln.testing.mutants.worker import main; main()'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """One mutant to judge."""

    #: Name and text of the changed module or file; None for the driver as it is.
    changed: Changed | None
    #: Behaviours to try, in this order, and the seconds that each can take; those of the driver
    #: as it is are recorded.
    behaviours: Mapping[str, float] = dataclasses.field(default_factory=dict)
    #: The part of all behaviours that the driver as it is shows.
    part: Part = (0, 1)
    limit_s: float


def main() -> None:
    """Run the program: a subject and tasks on stdin, verdicts on stdout."""
    # Output that a driver prints must not mix with results.
    with os.fdopen(os.dup(1), 'wb') as results:
        os.dup2(2, 1)
        requests = sys.stdin.buffer
        subject: Subject = pickle.load(requests)  # noqa: S301  # from our parent
        # Import the driver and its libraries once; what fails here, fails in each task.
        with contextlib.suppress(Exception):
            subject.load()
        # Both ends of the pipes are closed by a parent that ends.
        with contextlib.suppress(EOFError, BrokenPipeError):
            while True:
                task: Task = pickle.load(requests)  # noqa: S301  # from our parent
                pickle.dump(_judged(subject, task), results)
                results.flush()


def _judged(subject: Subject, task: Task) -> Verdict:
    prefix = f'kit-{os.urandom(4).hex()}'
    started = time.monotonic()

    def work() -> Verdict:
        if task.changed is None:
            return survey(subject, part=task.part, prefix=prefix)
        return judge(subject, task.changed, behaviours=task.behaviours, prefix=prefix)

    with tempfile.TemporaryDirectory(prefix='kiln-mutant-') as folder:
        verdict = _forked(work, folder, task.limit_s)
        if subject.leaves_resources:
            _forked(lambda: subject.clean_up(prefix), folder, _CLEAN_UP_S)
    return dataclasses.replace(verdict, seconds=time.monotonic() - started)


def _forked(work: Callable[[], Any], folder: str, limit_s: float) -> Verdict:
    """Return what ``work`` returns in a process of its own, or how the process ended."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        _child(work, folder, os.fdopen(writer, 'wb'))
    os.close(writer)
    with os.fdopen(reader, 'rb') as results:
        try:
            # Stdin is readable at its end, when nobody waits for the verdict any longer.
            ready, _, _ = select.select([results, sys.stdin], [], [], limit_s)
            if results in ready:
                verdict: Verdict = pickle.load(results)  # noqa: S301  # from our child
                return verdict
            return Verdict(fate=Fate.TIMED_OUT, reason=f'It did not end within {limit_s:.0f} s.')
        except EOFError:
            return _ended(pid)
        finally:
            # Also what it has started itself.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _ended(pid: int) -> Verdict:
    """Return the verdict on a mutant that has ended its process, or was ended by its alarm."""
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if end is not None and end.si_code == os.CLD_KILLED and end.si_status in _ALARMS:
        return Verdict(fate=Fate.TIMED_OUT, reason='A behaviour did not end in time.')
    return Verdict(fate=Fate.BROKEN, reason='It ended its process.')


def _child(work: Callable[[], Any], folder: str, results: IO[bytes]) -> None:
    # A child must never return to the code of its parent.
    try:
        os.setpgid(0, 0)
        tempfile.tempdir = os.environ['TMPDIR'] = folder
        # An engine of a driver's own can keep its state at home.
        os.environ['HOME'] = folder
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        verdict = work()
        pickle.dump(verdict, results)
        results.flush()
    finally:
        os._exit(0)
