"""Fork server for crash tests: starts processes in milliseconds.

It forks them from a process that has imported everything. A process that forks must have
no other threads. A test runner has some, so a separate program forks.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from typing import IO, Any, Self

from kiln.testing.clusters.crash_runs.crashing_worker import CrashPoint, work
from kiln.testing.clusters.simulation.site import Site, simulated

_PROGRAM = 'from kiln.testing.clusters.crash_runs.fork_server import main; main()'


class ForkServer:
    """Runs processes at sites, one after the other; not thread-safe.

    ``with ForkServer('nodes_v1') as server: server.run(site, crash_point)``
    """

    def __init__(self, driver: str) -> None:
        self._program = subprocess.Popen(  # noqa: S603  # this interpreter
            [sys.executable, '-c', _PROGRAM, driver],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the program and all processes that it has started."""
        self._program.communicate()

    def run(self, site: Site, crash_point: CrashPoint) -> tuple[int, int]:
        """Run a process; return its id and its end.

        The end is its exit status, the negative number of the signal that killed it, or
        -SIGSTOP if it was stopped and can be woken.
        """
        return self._request(site, crash_point)

    def wake(self, pid: int) -> int:
        """Let a stopped process continue; return its end, as ``run`` does."""
        return self._request(pid)[1]

    def _request(self, *words: Any) -> tuple[int, int]:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        pickle.dump(words, self._program.stdin)
        self._program.stdin.flush()
        result: tuple[int, int] = pickle.load(self._program.stdout)  # noqa: S301  # our own
        return result


def main() -> None:
    """Run the program: a driver as argument, requests on stdin, results on stdout."""
    # Output that a driver prints must not mix with results.
    with os.fdopen(os.dup(1), 'wb') as results:
        os.dup2(2, 1)
        # Import the modules of the driver once, before any fork.
        simulated(sys.argv[1]).open()
        stopped: set[int] = set()
        try:
            _serve(sys.stdin.buffer, results, stopped)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _serve(requests: IO[bytes], results: IO[bytes], stopped: set[int]) -> None:
    while True:
        try:
            words = pickle.load(requests)  # noqa: S301  # from our parent
        except EOFError:
            return
        # One word is the id of a stopped process; two are a site and a crash point.
        pid = _woken(*words) if len(words) == 1 else _forked(*words)
        stopped.discard(pid)
        _, status = os.waitpid(pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            stopped.add(pid)
            code = -os.WSTOPSIG(status)
        else:
            code = os.waitstatus_to_exitcode(status)
        pickle.dump((pid, code), results)
        results.flush()


def _woken(pid: int) -> int:
    os.kill(pid, signal.SIGCONT)
    return pid


def _forked(site: Site, crash_point: CrashPoint) -> int:
    if pid := os.fork():
        return pid
    status = 1
    # A child must never return to the code of its parent.
    try:
        status = work(site, crash_point)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)
