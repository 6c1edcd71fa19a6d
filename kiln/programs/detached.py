"""Detached runs of programs: begun by one process of kiln, found again by any other of the host.

Each run has a folder with what the program is given, what it prints, and how it ended. Its
supervisor holds the lock of the run until it ends, so a run is known to be at work, to have
ended, or to be lost, whenever kiln was killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import fcntl
import functools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from kiln.programs import supervisor
from kiln.programs.accounts import Account
from kiln.programs.isolation import become_user, environment, limited
from kiln.programs.output import last_whole_lines

#: The files of a run that are kept of each subject, and how long those of old subjects are.
_KEPT = 5
_KEPT_S = 7 * 86400.0
#: How the names of folders begin that are being removed.
_GONE = '.gone-'
_UNSAFE = re.compile(r'[^A-Za-z0-9._-]')


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A program to run, and what it is given."""

    argv: tuple[str, ...]
    #: What the program reads from stdin, and what it reads from file 3; the first is kept.
    document: bytes
    secrets: bytes = dataclasses.field(default=b'', repr=False)
    #: What the caller wants to know of the run later: plain data.
    facts: Mapping[str, Any]
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: The user that the program runs as; None is the user of kiln.
    account: Account | None = None
    #: Seconds after which the program is ended, and those that it has to end by itself then.
    seconds: float
    grace_s: float = 10.0
    #: The most bytes that the program prints, and the size of its largest file.
    most_bytes: int
    max_disk_mib: int = 1024


class RunState(enum.StrEnum):
    """State of a run."""

    RUNNING = 'running'
    ENDED = 'ended'
    #: It ended without a result: it was killed together with its supervisor.
    LOST = 'lost'


class Run:
    """One run, as any process of the host sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: Its number among the runs of its subject.
        self.number = int(folder.name)

    @functools.cached_property
    def facts(self) -> Mapping[str, Any]:
        """What the caller wrote about the run when it began."""
        found: Mapping[str, Any] = self._read('job.json')['facts']
        return found

    @property
    def state(self) -> RunState:
        """Its state now."""
        if not self._is_locked() and self.result is None:
            # The supervisor was killed, and the program might live.
            if self._orphans():
                return RunState.RUNNING
            self.clear()
            return RunState.LOST
        return RunState.RUNNING if self.result is None else RunState.ENDED

    @property
    def result(self) -> Mapping[str, Any] | None:
        """How it ended: ``status``, ``why`` it was ended by kiln, and what was ``left``."""
        with contextlib.suppress(FileNotFoundError):
            return self._read('result.json')
        return None

    @property
    def is_stopping(self) -> bool:
        """True if it was told to end."""
        return (self.folder / 'stop').exists()

    def output(self, most: int) -> bytes:
        """Return what the program has printed, up to one byte more than a limit."""
        with contextlib.suppress(FileNotFoundError), (self.folder / 'out').open('rb') as file:
            return file.read(most + 1)
        return b''

    def output_size(self) -> int:
        """Return how many bytes the program has printed."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / 'out').stat().st_size
        return 0

    def errors(self) -> bytes:
        """Return the end of what the program has written to stderr."""
        with contextlib.suppress(FileNotFoundError), (self.folder / 'err').open('rb') as file:
            return last_whole_lines(file)
        return b''

    def stop(self) -> None:
        """Have the program end, with all that it has started; return at once.

        Repeat it until the run is no longer RUNNING: without a supervisor, a program that does
        not end is killed by a later call.
        """
        told = self.folder / 'stop'
        is_first = not told.exists()
        if is_first:
            told.touch()
        leader = self._supervisor()
        # A supervisor that was killed has left its lock before its process is gone.
        if leader is not None and self._is_locked() and supervisor.process(leader.pid) == leader:
            supervisor.send(signal.SIGTERM, [leader.pid])
            return
        waited_s = time.time() - told.stat().st_mtime
        # A clock that was set back ends the wait, which it would make longer.
        late = not 0.0 <= waited_s <= self._read('job.json')['grace_s']
        firmly = late and not is_first
        supervisor.send(signal.SIGKILL if firmly else signal.SIGTERM, self._orphans())

    def kill(self) -> None:
        """Kill the program with all that it has started, and its supervisor."""
        leader = self._supervisor()
        # Some are known by their parent alone, so look before it is gone.
        left = self._orphans()
        if leader is not None and supervisor.process(leader.pid) == leader:
            left.insert(0, leader.pid)
        for pause_s in supervisor.pauses():
            supervisor.send(signal.SIGKILL, left)
            if not (left := self._orphans()):
                break
            select.select([], [], [], pause_s)

    def clear(self) -> None:
        """Remove its working directory, where programs write secrets.

        A supervisor does so when its program has ended, if it is not killed with it.
        """
        shutil.rmtree(self.folder / 'work', ignore_errors=True)

    def wait(self) -> None:
        """Wait until the supervisor has ended."""
        with (self.folder / 'lock').open('rb') as file:
            fcntl.flock(file, fcntl.LOCK_SH)

    def _is_locked(self) -> bool:
        with (self.folder / 'lock').open('rb') as file:
            try:
                # Shared, so that two that look at once do not take each other for the run.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def _supervisor(self) -> supervisor.Process | None:
        with contextlib.suppress(FileNotFoundError):
            found = dict(self._read('supervisor.json'))
            # After a reboot, or in another container, its number belongs to a stranger. A
            # file without a place was written by an earlier kiln.
            if found.pop('place', supervisor.place()) == supervisor.place():
                return supervisor.Process(**found)
        return None

    def _orphans(self) -> list[int]:
        return supervisor.members(str(self.folder), self._supervisor())

    def _read(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads((self.folder / name).read_text(encoding='utf-8'))
        return found


class Runs:
    """The runs of one subject, such as a cluster, in a folder of this host."""

    def __init__(self, root: Path, subject: str) -> None:
        self._root = root
        self._folder = root / _UNSAFE.sub('_', subject)

    @property
    def identity(self) -> str:
        """What tells the folder of this host from that of another host; made once."""
        if not (found := self._known_identity()):
            with _locked(self._root / 'identity.lock'):
                if not (found := self._known_identity()):
                    found = uuid.uuid4().hex
                    supervisor.write_whole(self._root / 'identity', found)
        return found

    def _known_identity(self) -> str:
        # It can be empty after a power failure: an earlier kiln did not wait for the disk.
        with contextlib.suppress(FileNotFoundError):
            return (self._root / 'identity').read_text(encoding='ascii')
        return ''

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other process begin or stop a run of this subject meanwhile."""
        with _locked(self._folder / 'lock'):
            yield

    def latest(self) -> Run | None:
        """Return the run that began last."""
        found = self._numbers()
        return Run(self._folder / str(found[-1])) if found else None

    def start(self, job: Job, *, above: int = 0) -> Run:
        """Begin a run; call it with the lock, and while no other run is at work.

        :param above: a number that the number of the run is above.
        :raises OSError: this host has no room, or no process left.
        """
        numbers = self._numbers()
        self._clear(numbers)
        number = max([above, *numbers[-1:]]) + 1
        folder = self._folder / str(number)
        new = self._folder / f'.{number}'
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(0o700)
        work = str(folder / 'work')
        supervisor.write_json(new / 'job.json', {
            'argv': (*become_user(job.account), *limited(job.argv, job.max_disk_mib)),
            'owner': [job.account.uid, job.account.gid] if job.account else None,
            'environment': {**environment(work), **job.variables},
            'facts': dict(job.facts),
            **{name: getattr(job, name) for name in ('seconds', 'grace_s', 'most_bytes')},
        })  # fmt: skip
        (new / 'document.json').write_bytes(job.document)
        if job.account:
            self._open_way(new)
        with _open_private(new / 'lock') as lock, in_memory(job.secrets) as secrets:
            # The supervisor inherits the lock, so there is no moment without it.
            fcntl.flock(lock, fcntl.LOCK_EX)
            new.rename(folder)
            _spawn(folder, lock.fileno(), secrets)
        self._tidy(numbers)
        return Run(folder)

    def _open_way(self, new: Path) -> None:
        """Let another user reach the working directory, and nothing beside it."""
        for one in new.iterdir():
            one.chmod(0o600)
        for one in self._root, self._folder, new:
            one.chmod(0o711)

    def forget(self) -> None:
        """Remove all runs but the last."""
        self._tidy(self._numbers()[:-1], keep=0)

    def _numbers(self) -> list[int]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(int(name) for name in os.listdir(self._folder) if name.isdigit())
        return []

    def _clear(self, numbers: list[int]) -> None:
        for run in (Run(self._folder / str(number)) for number in numbers):
            with contextlib.suppress(OSError):
                if (run.folder / 'work').exists() and run.state is not RunState.RUNNING:
                    run.clear()

    def _tidy(self, numbers: list[int], keep: int = _KEPT) -> None:
        for number in numbers[: max(len(numbers) - keep, 0)]:
            _remove(self._folder / str(number))
        before = time.time() - _KEPT_S
        # A folder that cannot be read or removed is left for later.
        with contextlib.suppress(OSError):
            for left in self._folder.glob(f'{_GONE}*'):
                shutil.rmtree(left, ignore_errors=True)
            for other in self._root.iterdir():
                with contextlib.suppress(OSError):
                    self._tidy_other(other, before)

    def _tidy_other(self, other: Path, before: float) -> None:
        if other.name.startswith(_GONE):
            shutil.rmtree(other, ignore_errors=True)
        elif other != self._folder and other.stat().st_mtime < before:
            # Without this lock, a run can begin in the folder while it is removed. One that is
            # held, or is not there, is an error.
            with (other / 'lock').open('rb') as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                last = Runs(self._root, other.name).latest()
                is_idle = last is None or last.state is not RunState.RUNNING
                if is_idle and other.stat().st_mtime < before and _is_at(file, other / 'lock'):
                    _remove(other)


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _remove(folder: Path) -> None:
    """Remove a folder; if that is cut short, it has a name that nobody looks for."""
    gone = folder.with_name(f'{_GONE}{uuid.uuid4().hex}')
    with contextlib.suppress(OSError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, whose file other users cannot open."""
    while True:
        _make(path.parent)
        try:
            file = _open_private(path)
        except FileNotFoundError:
            # The folder was removed just now.
            continue
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(file, path):
                yield
                return


def _open_private(path: Path) -> IO[bytes]:
    """Open a lock file that other users cannot open, as a lock of theirs would stop kiln."""
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    # It can have been made by an earlier kiln, for everybody.
    os.fchmod(number, 0o600)
    return os.fdopen(number, 'wb')


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Return True if a file that was opened is still the one at a path."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False


@contextlib.contextmanager
def in_memory(content: bytes) -> Iterator[int]:
    """Return an open file with some content that is in no file system."""
    number = os.memfd_create('kiln-secrets')
    try:
        os.write(number, content)
        os.lseek(number, 0, os.SEEK_SET)
        yield number
    finally:
        os.close(number)


def _spawn(folder: Path, lock: int, secrets: int) -> None:
    argv = [sys.executable, '-I', '-S', supervisor.__file__, str(folder), str(lock), str(secrets)]
    with (folder / 'log').open('ab') as log:
        begun = subprocess.Popen(  # noqa: S603  # this interpreter
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment('/'),
            cwd='/', start_new_session=True, pass_fds=(lock, secrets),
        )  # fmt: skip
    begun.wait()
