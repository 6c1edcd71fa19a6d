"""Start and stop of one engine."""

import dataclasses
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from tools.devcloud.processes import birth

from . import engines, host, packages, runtime
from .errors import EngineError
from .place import Place

READY_S = 60.0
STOP_S = 15.0
_POLL_S = 0.02
_ANSWER_S = 2.0
#: Children of this process, which would be zombies if they were forgotten.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclasses.dataclass(frozen=True)
class Running:
    """Record of a process that was started here."""

    pid: int
    born: str


class Engine:
    """One engine of one place."""

    def __init__(self, place: Place, say: Callable[[str], None] = lambda _: None):
        self.place = place
        self._say = say
        self._describe, self._packages = engines.KINDS[place.kind]

    def up(self) -> None:
        """Start the engine; leave it alone if it already serves."""
        if self.running() and self.answers():
            return
        packages.install(self._packages, self._say)
        # The remains of a killed engine.
        self.down()
        self._start()
        self._say(f'{self.place.kind}: ready at {self.place.url}')

    def down(self, *, wipe: bool = False) -> None:
        """End the engine and all its containers, and restore the machine."""
        if running := self.running():
            if self.answers():
                self._end_containers()
            _end(running)
        self.place.pid_file.unlink(missing_ok=True)
        self.place.socket.unlink(missing_ok=True)
        host.leave(self.place)
        host.forget_groups(one.name for one in self.place.data.glob('containers/*'))
        shutil.rmtree(self.place.run, ignore_errors=True)
        if wipe:
            shutil.rmtree(self.place.root, ignore_errors=True)

    def running(self) -> Running | None:
        """Return the process that was started here, if it still lives."""
        try:
            running = Running(**json.loads(self.place.pid_file.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        if child := _children.get(running.pid):
            child.poll()
        return running if birth(running.pid) == running.born else None

    def engine_pid(self) -> int | None:
        """Return the process id of the engine itself, which a test can kill."""
        running = self.running()
        if running is None:
            return None
        name = 'dockerd' if self.place.kind == 'docker' else 'podman'
        for pid in _children_of(running.pid):
            if pathlib.Path(f'/proc/{pid}/comm').read_text().strip() == name:
                return pid
        return None

    def answers(self) -> bool:
        """Return True if the engine serves its socket."""
        try:
            connection = http.client.HTTPConnection('localhost', timeout=_ANSWER_S)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(_ANSWER_S)
            connection.sock.connect(str(self.place.socket))
            connection.request('GET', '/_ping')
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    # ---- start and end ---------------------------------------------------

    def _start(self) -> None:
        place = self.place
        for folder in (place.data, place.run, place.etc):
            folder.mkdir(parents=True, exist_ok=True)
        place.home.chmod(0o700)
        networks = host.enter(place)
        if place.kind == 'docker':
            host.make_bridge(place, networks)
        start = self._describe(place, networks, self._wrapper())
        for path, text in start.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        reaper = pathlib.Path(__file__).with_name('reaper.py')
        with place.log.open('wb') as log:
            child = subprocess.Popen(
                [sys.executable, str(reaper), *start.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd='/',
                env=_environment(start),
                start_new_session=True,
            )
        _children[child.pid] = child
        running = Running(child.pid, birth(child.pid) or '')
        place.pid_file.write_text(json.dumps(dataclasses.asdict(running)))
        end = time.monotonic() + READY_S
        while not self.answers():
            if self.running() is None or time.monotonic() > end:
                error = EngineError(f'{place.kind} does not serve', place.log)
                self.down()
                raise error
            time.sleep(_POLL_S)

    def _wrapper(self) -> pathlib.Path | None:
        if not runtime.needed():
            return None
        path = self.place.etc / 'kiln-runc'
        runtime.write(path, runtime.find_runc())
        return path

    def _end_containers(self) -> None:
        start = self._describe(self.place, host.enter(self.place), self._wrapper())
        if start.before_end:
            subprocess.run(
                start.before_end,
                env=_environment(start),
                capture_output=True,
                timeout=STOP_S,
                check=False,
            )


def _environment(start: engines.Start) -> dict[str, str]:
    path = f'{os.environ.get("PATH", os.defpath)}:/usr/sbin:/sbin'
    kept = {name: text for name, text in os.environ.items() if not name.startswith('DOCKER_')}
    return {**kept, 'PATH': path, **start.environment}


def _children_of(pid: int) -> list[int]:
    found = []
    for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
        try:
            parent = int(stat.read_text().rsplit(')', 1)[1].split()[1])
        except (OSError, IndexError):
            continue  # it has ended meanwhile
        if parent == pid:
            found.append(int(stat.parent.name))
    return found


def _descendants(pid: int) -> list[int]:
    found = _children_of(pid)
    for one in found:
        found.extend(_children_of(one))
    return found


def _end(running: Running) -> None:
    """Stop an engine, then all its descendants."""
    os.kill(running.pid, signal.SIGTERM)
    end = time.monotonic() + STOP_S
    while birth(running.pid) == running.born:
        if child := _children.get(running.pid):
            child.poll()
        if time.monotonic() > end or not _engine_lives(running.pid):
            # The reaper ends by itself when no child is left.
            for pid in _descendants(running.pid):
                _kill(pid)
        time.sleep(_POLL_S)
    if child := _children.pop(running.pid, None):
        child.wait()


def _engine_lives(reaper: int) -> bool:
    for pid in _children_of(reaper):
        try:
            if pathlib.Path(f'/proc/{pid}/comm').read_text().strip() in ('dockerd', 'podman'):
                return True
        except OSError:
            continue
    return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended by itself
