"""Processes that outlive the command that started them, known by their pid files."""

import dataclasses
import enum
import hashlib
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping

from .errors import CloudError
from .place import HOST, Place

OPEN_FILES = 65536
POLL_S = 0.05
# Only the database can lose data when it is killed; it needs a second.
STOP_S = 5.0


class Stage(enum.IntEnum):
    """Stages of the start: each needs the one before it."""

    API = 1  # requests no token before its first request
    CONTROL = 2  # dies when Keystone refuses its first token
    COMPUTE = 3  # waits for ten seconds if it finds no conductor


@dataclasses.dataclass(frozen=True)
class Process:
    """One process of the cloud."""

    name: str
    command: tuple[str, ...]
    stage: Stage = Stage.CONTROL
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    config: tuple[pathlib.Path, ...] = ()
    port: int = 0
    url: str = ''
    ready_text: str = ''  # in its log, from this start on

    def digest(self) -> str:
        """Return a digest that changes when the process must be restarted."""
        digest = hashlib.sha256(repr((self.command, sorted(self.environment.items()))).encode())
        for path in self.config:
            digest.update(path.read_bytes() if path.exists() else b'')
        return digest.hexdigest()


@dataclasses.dataclass(frozen=True)
class Running:
    """The content of the pid file of a living process."""

    pid: int
    born: str  # in ticks since boot: a pid can be reused by another process
    digest: str
    log_offset: int
    started_at: float


def birth(pid: int) -> str | None:
    """Return when a process started, or None when it has gone (or is a zombie)."""
    try:
        fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] == 'Z' else fields[19]


def listens(port: int) -> bool:
    """Return True if a process listens on a port of the loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def until(
    ready: Callable[[], bool],
    failed: Callable[[], CloudError | None],
    limit_s: float,
    what: str,
    log: pathlib.Path | None = None,
) -> None:
    """Wait for a condition; raise what `failed` returns, or that time is up."""
    end = time.monotonic() + limit_s
    while not ready():
        if error := failed():
            raise error
        if time.monotonic() > end:
            raise CloudError(f'{what} is not ready after {limit_s:.0f} s', log)
        time.sleep(2 * POLL_S)


#: What this process has started, by pid. They outlive the supervisor that started
#: them, and one that is dropped while it runs warns.
_children: dict[int, subprocess.Popen[bytes]] = {}


class Supervisor:
    """Starts, finds and ends the processes of one place."""

    def __init__(self, place: Place):
        self._place = place

    def names(self) -> list[str]:
        """Return the names of all processes with a pid file, dead ones included."""
        return sorted(path.stem for path in self._place.run.glob('*.pid'))

    def log(self, name: str) -> pathlib.Path:
        """Return the path of a process's log."""
        return self._place.log / f'{name}.log'

    def find(self, name: str) -> Running | None:
        """Return the process that was started here, if it still lives."""
        try:
            running = Running(**json.loads(self._pid_file(name).read_text()))
        except (OSError, ValueError, TypeError):
            return None
        if child := _children.get(running.pid):
            child.poll()  # else one that has ended stays as a zombie
        return running if birth(running.pid) == running.born else None

    def start(self, process: Process) -> bool:
        """Start a process unless it runs as configured; return True if it was started."""
        digest = process.digest()
        if running := self.find(process.name):
            if running.digest == digest:
                return False
            self.stop(process.name)
        # Otherwise answers of another process would be taken for this one's.
        if process.port and listens(process.port):
            raise CloudError(
                f'{process.name}: port {process.port} is taken; --port-base chooses others'
            )
        with self.log(process.name).open('ab') as log:
            offset = log.tell()
            child = subprocess.Popen(
                process.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._place.home,
                env=self._place.environment(**process.environment),
                start_new_session=True,
                preexec_fn=_raise_file_limit,
            )
        _children[child.pid] = child
        born = birth(child.pid) or ''
        self._pid_file(process.name).write_text(
            json.dumps(dataclasses.asdict(Running(child.pid, born, digest, offset, time.time())))
        )
        return True

    def death(self, name: str) -> CloudError | None:
        """Return the error of a process that has died."""
        if self.find(name):
            return None
        return CloudError(f'{name} died', self.log(name))

    def said(self, name: str, text: str) -> bool:
        """Return True if a process has logged a text since it was started."""
        running = self.find(name)
        if running is None:
            return False
        with self.log(name).open('rb') as log:
            log.seek(running.log_offset)
            return text.encode() in log.read()

    def stop(self, name: str, wait_s: float = STOP_S) -> None:
        """End a process and its children; kill it if it ignores SIGTERM."""
        running = self.find(name)
        if running:
            _signal(os.kill, running.pid, signal.SIGTERM)
            end = time.monotonic() + wait_s
            while self.find(name) and time.monotonic() < end:
                time.sleep(POLL_S)
            # Each has a session of its own, so its group is its children.
            _signal(os.killpg, running.pid, signal.SIGKILL)
            while self.find(name):
                time.sleep(POLL_S)
        self._pid_file(name).unlink(missing_ok=True)

    def _pid_file(self, name: str) -> pathlib.Path:
        return self._place.run / f'{name}.pid'


def _signal(send: Callable[[int, int], None], pid: int, number: int) -> None:
    try:
        send(pid, number)
    except ProcessLookupError:
        pass  # it has ended by itself


def _raise_file_limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    soft = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
