"""Fork server for crash tests: starts processes in milliseconds.

It forks them from a process that has imported everything. A process that forks must have
no other threads. A test runner has some, so a separate program forks.
"""

from __future__ import annotations

import contextlib
import functools
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
from collections.abc import Callable, Iterable, Iterator, Sequence
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

#: The operations of a fixture that run at once; each needs a line.
_LINES = 4
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


class ForkLines:
    """Several lines, each for one thread at a time."""

    def __init__(self, ends: Iterable[socket.socket]) -> None:
        """Take one end of the connection of each line."""
        self._files: list[BufferedRWPair] = []
        self._free: queue.SimpleQueue[ForkLine] = queue.SimpleQueue()
        for ours in ends:
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

    def close(self) -> None:
        """Close all lines, which ends the processes at their other ends."""
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()


class ForkServer(ForkLines):
    """A program with lines of its own.

    ``with ForkServer('nodes_v1') as server, server.line() as line: line.run(site, point)``
    """

    def __init__(self, driver: str) -> None:
        ours, theirs = pairs()
        self._program = started(_PROGRAM, [one.fileno() for one in theirs], driver)
        for one in theirs:
            one.close()
        super().__init__(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the program and all processes that it has started."""
        self.close()
        self._program.wait()


def pairs() -> tuple[list[socket.socket], list[socket.socket]]:
    """Return both ends of the connections of the lines of one fixture."""
    made = [socket.socketpair() for _ in range(_LINES)]
    return [ours for ours, _ in made], [theirs for _, theirs in made]


def started(program: str, connections: Sequence[int], *arguments: str) -> subprocess.Popen[bytes]:
    """Start a program with some arguments, and then the numbers of its connections."""
    return subprocess.Popen(  # noqa: S603  # this interpreter
        [sys.executable, '-c', program, *arguments, *map(str, connections)],
        stdin=subprocess.DEVNULL,
        pass_fds=connections,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
    )


def main() -> None:
    """Run the program: a driver and the numbers of connections as arguments."""
    driver, *numbers = sys.argv[1:]
    prepare(driver)
    lines = [socket.socket(fileno=int(number)) for number in numbers]
    wait_for(serve(lines))


def prepare(driver: str) -> None:
    """Prepare a program for its forks: import and do once what each process needs."""
    # Output that a driver prints must not mix with that of the test runner.
    os.dup2(2, 1)
    # The behaviours show what is wrong with a driver that cannot be opened.
    with contextlib.suppress(Exception, SystemExit):
        simulated(driver).open()
    _warm_up()
    # The processes share the memory of what is imported, as nobody writes to it.
    gc.collect()
    gc.freeze()


def serve(lines: Sequence[socket.socket], others: Sequence[socket.socket] = ()) -> list[int]:
    """Fork a process that serves each line, and close the lines here; return their ids.

    :param others: The other ends, if they are in this process: no server must keep them open.
    """
    servers = [_forked_server([*lines, *others], mine) for mine in lines]
    for line in lines:
        line.close()
    return servers


def forked(work: Callable[[], int]) -> int:
    """Fork a process that ends with the exit status that its work returns; return its id."""
    if pid := os.fork():
        return pid
    status = 1
    # A child must never return to the code of its parent.
    try:
        status = work()
    except KeyboardInterrupt:
        pass  # it is for the whole kit
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def wait_for(pids: Iterable[int]) -> None:
    """Wait until processes have ended, as they do after Ctrl-C, too."""
    for pid in pids:
        with contextlib.suppress(KeyboardInterrupt):
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


def _forked_server(lines: Sequence[socket.socket], mine: socket.socket) -> int:
    """Fork a process that serves one line; return its id."""

    def work() -> int:
        stopped: set[int] = set()
        for line in lines:
            if line is not mine:
                line.close()
        try:
            _serve(mine.makefile('rwb'), stopped)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        return 0

    return forked(work)


def _serve(line: BufferedRWPair, stopped: set[int]) -> None:
    while True:
        try:
            words = pickle.load(line)  # noqa: S301  # from our parent
        except EOFError:
            return
        # One word is the id of a stopped process; two are a site and a crash point.
        pid = _woken(*words) if len(words) == 1 else forked(functools.partial(work, *words))
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
