"""Supervisor of a run: starts a program, ends it in time with all that it started, and writes how.

It is a process of its own that outlives the process which began the run, so it imports nothing
of kiln. Its arguments are the folder of the run, and the numbers of two open files: the lock of
the run, which it holds until it ends, and the secrets, which the program reads from file 3.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
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
_FREE = 10
#: How often to look at a process that is just becoming another program, and the pause.
_LOOKS, _LOOK_AGAIN_S = 1000, 0.002
#: Looks in succession at which a process without variables has become no other program.
_SURE = 3
#: The flag of the threads of the kernel, PF_KTHREAD.
_OF_KERNEL = 0x00200000


class Process(NamedTuple):
    """A process, and when it started: numbers are used again."""

    pid: int
    started: str


# ---- processes of a run ------------------------------------------------------------------


def process(pid: int) -> Process | None:
    """Return a process that is running; None if that number is free."""
    fields = _fields(pid)
    return Process(pid, fields[19]) if fields and fields[0] not in 'ZX' else None


def members(folder: str, leader: Process | None) -> list[int]:
    """Return the processes of a run: those that carry its mark, or are in its session.

    :param leader: the supervisor, which is not among them.
    """
    found = []
    # While a session has members, its number is not given to another process.
    is_own = leader is not None and process(leader.pid) in (leader, None)
    mark = f'{MARK}={folder}'.encode()
    for name in os.listdir('/proc'):
        if not name.isdigit() or (leader is not None and int(name) == leader.pid):
            continue
        fields = _fields(int(name))
        if not fields or fields[0] in 'ZX' or int(fields[6]) & _OF_KERNEL:
            continue
        in_session = leader is not None and is_own and int(fields[3]) == leader.pid
        if in_session or mark in _variables(int(name)):
            found.append(int(name))
    return found


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


def send(signal_: signal.Signals, pids: list[int]) -> None:
    """Send a signal to processes; those that are gone are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal_)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that is there whole, or not at all."""
    half = path.with_name(f'{path.name}.new')
    with half.open('w', encoding='utf-8') as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)


# ---- the supervisor ------------------------------------------------------------------------


class _Supervisor:
    """Waits for a program, and for what has to end it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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
        write_json(self._folder / 'supervisor.json', self._self._asdict())
        try:
            child = self._start()
        except OSError as exc:
            self._write(127, trouble=exc.strerror)
            return
        while not self._ended(child):
            self._why = self._why or self._reason_to_end()
            if self._why:
                self._end(self._job['grace_s'])
                break
            self._pause(min(_LOOK_S, max(self._ends_at - time.monotonic(), 0.0)))
        left = len(self._members())
        if left:
            self._end(min(_LEFT_S, self._job['grace_s']))
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
        return child.poll() is not None

    def _reason_to_end(self) -> str:
        # It can have been there before this process was known, and could be sent a signal.
        if (self._folder / 'stop').exists():
            return 'stopped'
        if time.monotonic() >= self._ends_at:
            return 'deadline'
        sizes = ((self._folder / name).stat().st_size for name in ('out', 'err'))
        return 'output' if max(sizes) > self._job['most_bytes'] else ''

    def _members(self) -> list[int]:
        return members(str(self._folder), self._self)

    def _end(self, grace_s: float) -> None:
        """End everything that the program has started: politely, then firmly."""
        kill_at = time.monotonic() + grace_s
        told: set[int] = set()
        while (left := set(self._members())) and (time.monotonic() < kill_at or not told):
            # One that is told can have started another just before.
            send(signal.SIGTERM, sorted(left - told))
            told |= left
            self._pause(0.05)
        while stubborn := self._members():
            send(signal.SIGKILL, stubborn)
            self._pause(0.02)

    def _pause(self, seconds: float) -> None:
        """Wait for a signal."""
        select.select([self._bell], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._bell, 4096)

    def _write(self, status: int, **more: Any) -> None:
        shutil.rmtree(self._folder / 'work', ignore_errors=True)
        result = {'status': status, 'why': self._why, 'ended_at': time.time(), **more}
        write_json(self._folder / 'result.json', result)


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
    # The number of the secrets can be that of the lock.
    fcntl.fcntl(int(lock), fcntl.F_DUPFD_CLOEXEC, _FREE)
    os.dup2(int(secrets), SECRETS)
    for one in {int(lock), int(secrets)} - {SECRETS}:
        os.close(one)
    _Supervisor(Path(folder)).run()


if __name__ == '__main__':
    main(*sys.argv[1:])
