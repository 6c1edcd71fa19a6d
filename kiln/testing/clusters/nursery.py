"""Forks the processes of crash tests, each in milliseconds, from one that has it all imported.

A process that forks must have no threads. Those of a test runner do, so the forking
is done by a program of its own.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from types import TracebackType
from typing import IO, Any, Self

from kiln.testing.clusters.mortal import Fate, live
from kiln.testing.clusters.site import Site, simulated

_PROGRAM = 'from kiln.testing.clusters.nursery import main; main()'
_WAKE = 'wake'
_LIVE = 'live'


class Nursery:
    """Has processes live at sites, one after the other. Not for several threads.

    ``with Nursery('nodes_v1') as nursery: nursery.live(site, fate)``
    """

    def __init__(self, driver: str) -> None:
        environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))}
        self._program = subprocess.Popen(  # noqa: S603  # ourselves
            [sys.executable, '-c', _PROGRAM, driver],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def live(self, site: Site, fate: Fate) -> tuple[int, int]:
        """Have a process live; return its id and how it ended.

        That is its exit status, the negative number of the signal that ended it, or
        where it was stopped and may be woken, -SIGSTOP.
        """
        return self._ask(_LIVE, site, fate)

    def wake(self, pid: int) -> int:
        """Have a process go on that was stopped; return how it ended."""
        return self._ask(_WAKE, pid)[1]

    def close(self) -> None:
        """End it, and all that it has started; safe to repeat."""
        self._program.communicate()

    def _ask(self, *words: Any) -> tuple[int, int]:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        pickle.dump(words, self._program.stdin)
        self._program.stdin.flush()
        answer: tuple[int, int] = pickle.load(self._program.stdout)  # noqa: S301  # our own
        return answer


class _Forks:
    """The other side: takes words, and answers each."""

    def __init__(self) -> None:
        self._stopped: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for pid in self._stopped:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def answer(self, verb: str, *words: Any) -> tuple[int, int]:
        if verb == _LIVE:
            return self._wait(_forked(*words))
        (pid,) = words
        self._stopped.discard(pid)
        os.kill(pid, signal.SIGCONT)
        return self._wait(pid)

    def _wait(self, pid: int) -> tuple[int, int]:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            self._stopped.add(pid)
            return pid, -os.WSTOPSIG(status)
        return pid, os.waitstatus_to_exitcode(status)


def _forked(site: Site, fate: Fate) -> int:
    if pid := os.fork():
        return pid
    status = 1
    # A child must never come back to where its parent is.
    try:
        status = live(site, fate)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Be the program: name a driver, ask on stdin, read answers on stdout."""
    # What a driver prints must not be taken for an answer.
    with os.fdopen(os.dup(1), 'wb') as answers:
        os.dup2(2, 1)
        _serve(sys.argv[1], sys.stdin.buffer, answers)


def _serve(driver: str, asked: IO[bytes], answers: IO[bytes]) -> None:
    # What an author's modules need is imported once, here.
    simulated(driver).open()
    with _Forks() as forks:
        while True:
            try:
                words = pickle.load(asked)  # noqa: S301  # from whoever started us
            except EOFError:
                return
            pickle.dump(forks.answer(*words), answers)
            answers.flush()
