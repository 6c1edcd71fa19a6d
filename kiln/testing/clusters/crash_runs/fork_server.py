"""Fork server for crash tests: starts processes in milliseconds.

It forks them from a process that has imported everything. A process that forks must have
no other threads. A test runner has some, so a separate program forks.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from io import BufferedRWPair
from pathlib import Path
from typing import Any, Self

from kiln import cluster_drivers
from kiln.clusters.spec import MachineSpec
from kiln.testing.clusters.crash_runs.crashing_worker import CrashPoint, work
from kiln.testing.clusters.simulation import operations
from kiln.testing.clusters.simulation.course import Course
from kiln.testing.clusters.simulation.site import Site, simulated
from kiln.testing.clusters.subjects import find_driver

_PROGRAM = 'from kiln.testing.clusters.crash_runs.fork_server import main; main()'


class ForkLine:
    """Runs processes at sites, one after the other; not thread-safe."""

    def __init__(self, requests: BufferedRWPair) -> None:
        self._requests = requests

    def run(self, site: Site, crash_point: CrashPoint) -> tuple[int, int]:
        """Run a process; return its id and its end.

        The end is its exit status, the negative number of the signal that killed it, or
        -SIGSTOP if it was stopped and can be woken.
        """
        return self._request(site, crash_point)

    def wake(self, pid: int) -> int:
        """Let a stopped process of this line continue; return its end, as ``run`` does."""
        return self._request(pid)[1]

    def _request(self, *words: Any) -> tuple[int, int]:
        pickle.dump(words, self._requests)
        self._requests.flush()
        result: tuple[int, int] = pickle.load(self._requests)  # noqa: S301  # our own
        return result


class ForkServer:
    """Has several lines, each for one thread at a time.

    ``with ForkServer('nodes_v1') as server, server.line() as line: line.run(site, point)``
    """

    def __init__(self, driver: str, lines: int = 4) -> None:
        pairs = [socket.socketpair() for _ in range(lines)]
        theirs = [their.fileno() for _, their in pairs]
        self._program = subprocess.Popen(  # noqa: S603  # this interpreter
            [sys.executable, '-c', _PROGRAM, driver, *map(str, theirs)],
            stdin=subprocess.DEVNULL,
            pass_fds=theirs,
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
        )
        self._files: list[BufferedRWPair] = []
        self._free: queue.SimpleQueue[ForkLine] = queue.SimpleQueue()
        for ours, their in pairs:
            their.close()
            file = ours.makefile('rwb')
            # The file keeps the connection open.
            ours.close()
            self._files.append(file)
            self._free.put(ForkLine(file))

    @contextlib.contextmanager
    def line(self) -> Iterator[ForkLine]:
        """Wait for a line that is free, and use it as long as the block lasts."""
        line = self._free.get()
        try:
            yield line
        finally:
            self._free.put(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the program and all processes that it has started."""
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()
        self._program.wait()


def main() -> None:
    """Run the program: a driver and the numbers of connections as arguments."""
    # Output that a driver prints must not mix with that of the test runner.
    os.dup2(2, 1)
    driver, *numbers = sys.argv[1:]
    # Import the modules of the driver once, before any fork.
    simulated(driver).open()
    _warm_up()
    # The processes share the memory of what is imported, as nobody writes to it.
    gc.collect()
    gc.freeze()
    lines = [socket.socket(fileno=int(number)) for number in numbers]
    servers = [_forked_server(lines, mine) for mine in lines]
    for line in lines:
        line.close()
    for pid in servers:
        os.waitpid(pid, 0)


def _warm_up() -> None:
    """Have a cluster built and deleted, so that the processes need not prepare for it."""
    # Not the driver that is judged: it has to do without memory of another process.
    driver = str(Path(cluster_drivers.__file__).parent / 'nodes_v1')
    with tempfile.TemporaryDirectory(prefix='kiln-kit-') as folder:
        site, machine = Site(folder=Path(folder), driver=driver), MachineSpec()
        course = Course(
            site=site, driver_class=find_driver(driver), machine=machine, other=machine, count=1
        )
        for row in (operations.CREATE, operations.DELETE):
            with site.open_store() as store:
                course.ask(store, row)
            work(site, CrashPoint())


def _forked_server(lines: list[socket.socket], mine: socket.socket) -> int:
    """Fork a process that serves one line; return its id."""
    if pid := os.fork():
        return pid
    status = 1
    stopped: set[int] = set()
    # A child must never return to the code of its parent.
    try:
        for line in lines:
            if line is not mine:
                line.close()
        _serve(mine.makefile('rwb'), stopped)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stopped_pid in stopped:
            os.kill(stopped_pid, signal.SIGKILL)
            os.waitpid(stopped_pid, 0)
        sys.stderr.flush()
        os._exit(status)


def _serve(line: BufferedRWPair, stopped: set[int]) -> None:
    while True:
        try:
            words = pickle.load(line)  # noqa: S301  # from our parent
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
        pickle.dump((pid, code), line)
        line.flush()


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
