"""Supervisor of a run: starts a program, ends it in time with all that it started, and writes how.

It is a process of its own that outlives the process which began the run, so it imports nothing
of kiln. Its arguments are the folder of the run, and the numbers of two open files: the lock of
the run, which it holds until it ends, and the secrets, which the program reads from file 3.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

#: The variable by which the processes of a run are known; its value is the folder of the run.
MARK = 'KILN_RUN'
#: Where a program reads its secrets.
SECRETS = 3
#: Seconds between two looks at the size of the output.
_LOOK_S = 0.5
#: Seconds that processes which the program has left behind are given to end.
_LEFT_S = 2.0
#: The most bytes of stderr, and how many of them are kept then. They are more than are read of
#: its end, so that its first line, which can be half a line, is never read.
_MOST_ERRORS, _KEPT_ERRORS = 1024 * 1024, 128 * 1024
#: The first pause before something is tried again, and the longest.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0
_FREE = 10
#: How often to look at a process that is just becoming another program, and the pause.
_LOOKS, _LOOK_AGAIN_S = 1000, 0.002
#: Looks in succession at which a process without variables has become no other program.
_SURE = 3
#: The flag of the threads of the kernel, PF_KTHREAD.
_OF_KERNEL = 0x00200000
#: From <sys/prctl.h>: the children of a process that ends become those of this process.
_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """A process, and when it started: numbers are used again."""

    pid: int
    started: str


# ---- processes of a run ------------------------------------------------------------------


def process(pid: int) -> Process | None:
    """Return a process that is running; None if that number is free."""
    fields = _fields(pid)
    return Process(pid, fields[19]) if fields and not _is_gone(fields) else None


def place() -> list[str]:
    """Return what tells the processes of this boot and container from those of others."""
    with contextlib.suppress(OSError):
        boot = Path('/proc/sys/kernel/random/boot_id').read_text(encoding='ascii')
        return [boot.strip(), os.readlink('/proc/self/ns/pid')]
    return []


def members(folder: str, leader: Process | None) -> list[int]:
    """Return the processes of a run.

    They carry its mark, are in its session, or descend from its supervisor. Those that do the
    last alone are found while it lives; one whose parent ends just now can be passed over.

    :param leader: the supervisor, which is not among them; None if it is not known.
    """
    every = {int(name): _fields(int(name)) for name in os.listdir('/proc') if name.isdigit()}
    own = set()
    # While a session has members, its number is not given to another process.
    if leader is not None and process(leader.pid) in (leader, None):
        own = {pid for pid, fields in every.items() if fields and int(fields[3]) == leader.pid}
        own |= _descendants(leader.pid, every)
        own -= {leader.pid}
    mark = f'{MARK}={folder}'.encode()
    return [
        pid
        for pid, fields in every.items()
        if fields and not _is_gone(fields) and not int(fields[6]) & _OF_KERNEL
        if pid in own or mark in _variables(pid)
    ]


def _descendants(pid: int, every: Mapping[int, list[str]]) -> set[int]:
    found: set[int] = set()
    parents = {pid}
    while parents:
        children = {one for one, fields in every.items() if fields and int(fields[1]) in parents}
        parents = children - found
        found |= children
    return found


def _is_gone(fields: list[str]) -> bool:
    # The first thread of a process can end before the others.
    return fields[0] in 'ZX' and int(fields[17]) < 2


def _fields(pid: int) -> list[str]:
    """Return the fields of a process after its name: state, parent, group, session, ..."""
    try:
        text = Path(f'/proc/{pid}/stat').read_text(encoding='ascii', errors='replace')
    except OSError:
        return []
    return text.rpartition(')')[2].split()


def _variables(pid: int) -> list[bytes]:
    """Return the variables of a process, of which some have none.

    One that is just becoming another program seems to have none, too.
    """
    content, sure = b'', 0
    with contextlib.suppress(OSError):
        for _ in range(_LOOKS):
            content = Path(f'/proc/{pid}/environ').read_bytes()
            # It can have become another program since the file was opened.
            sure = 0 if _is_becoming(pid) else sure + 1
            if content or sure == _SURE:
                break
            time.sleep(0.0 if sure else _LOOK_AGAIN_S)
    return content.split(b'\0')


def _is_becoming(pid: int) -> bool:
    fields = _fields(pid)
    # The last is where its variables end.
    return bool(fields) and fields[0] not in 'ZX' and fields[48] == '0'


def pauses() -> Iterator[float]:
    """Yield the seconds between attempts, without an end; they grow up to one second."""
    seconds = _FIRST_PAUSE_S
    while True:
        yield seconds
        seconds = min(2 * seconds, _LONGEST_PAUSE_S)


def send(signal_: signal.Signals, pids: list[int]) -> None:
    """Send a signal to processes; those that are gone are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal_)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write plain data to a file that is there whole, or not at all."""
    write_whole(path, json.dumps(content))


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there whole, or not at all."""
    half = path.with_name(f'{path.name}.new')
    with half.open('w', encoding='utf-8') as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)


def write_patiently(
    path: Path, content: Mapping[str, Any], pause: Callable[[float], None]
) -> None:
    """Write a file as soon as there is room, unless its folder is gone."""
    for seconds in pauses():
        try:
            write_json(path, content)
        except FileNotFoundError:
            return
        except OSError:
            pause(seconds)
        else:
            return


# ---- the supervisor ------------------------------------------------------------------------


class _Supervisor:
    """Waits for a program, and for what has to end it.

    :param is_alone: this process has no other children, and gets those that the run leaves.
    """

    def __init__(self, folder: Path, *, is_alone: bool) -> None:
        self._folder = folder
        self._is_alone = is_alone
        self._job = json.loads((folder / 'job.json').read_text(encoding='utf-8'))
        self._ends_at = time.monotonic() + self._job['seconds']
        found = process(os.getpid())
        assert found is not None
        self._self = found
        self._why = ''
        self._bell, ringer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(ringer, False)
        signal.set_wakeup_fd(ringer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Sent by kiln, or by a system that goes down.
        signal.signal(signal.SIGTERM, self._asked_to_stop)

    def _asked_to_stop(self, *_: object) -> None:
        self._why = self._why or 'stopped'

    def run(self) -> None:
        """Run the program to its end, and write the result."""
        known = {**self._self._asdict(), 'place': place()}
        write_json(self._folder / 'supervisor.json', known)
        try:
            child = self._start()
        except OSError as exc:
            self._report(f'The program cannot be started: {exc.strerror}\n')
            self._write(127)
            return
        while not self._ended(child):
            self._why = self._why or self._reason_to_end()
            if self._why:
                self._end(child, self._job['grace_s'])
                break
            self._shorten_errors()
            self._pause(min(_LOOK_S, max(self._ends_at - time.monotonic(), 0.0)))
        left = len(self._members())
        if self._is_at_work(child):
            self._end(child, min(_LEFT_S, self._job['grace_s']))
        self._write(child.wait(), left=0 if self._why else left)

    def _start(self) -> subprocess.Popen[bytes]:
        work = self._folder / 'work'
        work.mkdir(0o700)
        owner = self._job['owner']
        if owner:
            os.chown(work, *owner)
        with _opened(self._folder) as (given, out, err):
            # A program that opens /dev/stderr opens the file once more.
            for one in (given, out, err) if owner else ():
                os.chown(one, *owner)
            return subprocess.Popen(  # noqa: S603  # the operator installs the driver
                self._job['argv'], stdin=given, stdout=out, stderr=err, cwd=work,
                env={**self._job['environment'], MARK: str(self._folder)},
                pass_fds=(SECRETS,),
            )  # fmt: skip

    def _ended(self, child: subprocess.Popen[bytes]) -> bool:
        self._has_children(child)
        return child.poll() is not None

    def _is_at_work(self, child: subprocess.Popen[bytes]) -> bool:
        # Without children there are no descendants; a look at all processes can miss one.
        return self._has_children(child) or bool(self._members())

    def _has_children(self, child: subprocess.Popen[bytes]) -> bool:
        """Return True if a process of the run is left that the system knows as a child."""
        if not self._is_alone:
            return child.poll() is None
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                # The number of the program can be given again once its status is taken.
                if found.si_pid == child.pid and child.returncode is None:
                    child.poll()
                else:
                    os.waitpid(found.si_pid, 0)
            return True
        return False

    def _reason_to_end(self) -> str:
        # It can have been there before this process was known, and could be sent a signal.
        if (self._folder / 'stop').exists():
            return 'stopped'
        if time.monotonic() >= self._ends_at:
            return 'deadline'
        size = (self._folder / 'out').stat().st_size
        return 'output' if size > self._job['most_bytes'] else ''

    def _members(self) -> list[int]:
        return members(str(self._folder), self._self if self._is_alone else None)

    def _end(self, child: subprocess.Popen[bytes], grace_s: float) -> None:
        """End everything that the program has started: politely, then firmly."""
        kill_at = time.monotonic() + grace_s
        told: set[int] = set()
        is_first = True
        while self._is_at_work(child) and (is_first or time.monotonic() < kill_at):
            # One that is told can have started another just before.
            left = set(self._members())
            send(signal.SIGTERM, sorted(left - told))
            told |= left
            is_first = False
            self._pause(0.05)
        # Some can end late or never: they wait for a disk, or run as another user.
        for pause_s in pauses():
            if not self._is_at_work(child):
                break
            send(signal.SIGKILL, self._members())
            self._pause(pause_s)

    def _pause(self, seconds: float) -> None:
        """Wait for a signal."""
        select.select([self._bell], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._bell, 4096)

    def _report(self, text: str) -> None:
        """Add a line to the errors of the program."""
        with contextlib.suppress(OSError), (self._folder / 'err').open('a') as file:
            file.write(text)

    def _shorten_errors(self) -> None:
        """Keep the end of what the program writes to stderr; it might be all that is logged."""
        with contextlib.suppress(OSError), (self._folder / 'err').open('a+b') as file:
            if file.tell() > _MOST_ERRORS:
                file.seek(-_KEPT_ERRORS, os.SEEK_END)
                kept = file.read(_KEPT_ERRORS)
                # The program appends as well.
                file.truncate(0)
                file.write(kept)

    def _write(self, status: int, left: int = 0) -> None:
        shutil.rmtree(self._folder / 'work', ignore_errors=True)
        self._shorten_errors()
        result = {'status': status, 'why': self._why, 'left': left}
        write_patiently(self._folder / 'result.json', result, self._pause)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[tuple[int, int, int]]:
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context((folder / name).open('ab')) for name in ('out', 'err')]
        given = stack.enter_context((folder / 'document.json').open('rb'))
        yield given.fileno(), files[0].fileno(), files[1].fileno()


def main(folder: str, lock: str, secrets: str) -> None:
    """Leave the process that began the run, and supervise it."""
    # The parent ends at once, so that kiln has no child to wait for.
    if os.fork():
        os._exit(0)
    os.setsid()
    os.umask(0o077)
    _get_orphans()
    # The number of the secrets can be that of the lock.
    fcntl.fcntl(int(lock), fcntl.F_DUPFD_CLOEXEC, _FREE)
    os.dup2(int(secrets), SECRETS)
    for one in {int(lock), int(secrets)} - {SECRETS}:
        os.close(one)
    _Supervisor(Path(folder), is_alone=True).run()


def _get_orphans() -> None:
    """Become the parent of what the run leaves, even if it has a session of its own."""
    on, unused = ctypes.c_ulong(1), ctypes.c_ulong(0)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, on, unused, unused, unused)


if __name__ == '__main__':
    main(*sys.argv[1:])
