"""Short runs of programs, for which the caller waits."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from kiln.programs import supervisor
from kiln.programs.accounts import Account
from kiln.programs.detached import in_memory
from kiln.programs.isolation import become_user, ended_within, environment, limited, switch
from kiln.programs.output import last_whole_lines

_MOST_MIB = 64
#: How often to kill what a program leaves behind: it can be starting more meanwhile.
_TRIES = 100
_PAUSE_S = 0.01
_IN_FOLDER = ('/bin/sh', '-c', 'cd "$0" && exec "$@"')
#: Ends a program politely, and kills it a second later. kiln itself kills it a little earlier,
#: so this is for programs whose kiln was killed.
_AT_MOST = ('/usr/bin/timeout', '-k', '1')
_LATER_S = 1.0
_PREFIX = 'kiln-program-'
#: Seconds after which a folder is certain to have been left by a kiln that was killed.
_LEFT_S = 86400.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """How a short run ended; the status is None if it was late, and was killed."""

    status: int | None
    output: bytes
    errors: bytes


def run_short(
    argv: tuple[str, ...],
    document: bytes,
    *,
    secrets: bytes = b'',
    account: Account | None = None,
    variables: Mapping[str, str],
    seconds: float,
    most_bytes: int,
) -> Finished:
    """Run a program, and wait for it up to a time; everything that it started ends with it.

    :raises OSError: the program cannot be run.
    """
    _remove_left(account)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX))
        number = stack.enter_context(in_memory(secrets))
        given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(document)
        given.seek(0)
        files = (given.fileno(), out.fileno(), err.fileno(), number)
        switch(account, folder, *files[:3])
        # Popen gives a program no file at a number of the caller's choice, without a risk for
        # the other threads.
        pid = os.posix_spawn(
            _IN_FOLDER[0],
            (
                *_IN_FOLDER,
                folder,
                *_AT_MOST,
                str(seconds + _LATER_S),
                *become_user(account),
                *limited(argv, _MOST_MIB),
            ),
            {**environment(folder), **variables, supervisor.MARK: folder},
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, one, at) for at, one in enumerate(files)),
                *((os.POSIX_SPAWN_CLOSE, one) for one in _inherited()),
            ],
            setsid=True,
            # Python ignores them, and the program would go on to do so.
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
        )
        in_time = ended_within(pid, seconds)
        status = _kill(pid, folder)
        out.seek(0)
        return Finished(
            status=status if in_time else None,
            output=out.read(most_bytes + 1),
            errors=last_whole_lines(err),
        )


def _remove_left(account: Account | None) -> None:
    """Remove the folders of programs whose kiln was killed."""
    users = {os.geteuid(), account.uid if account else os.geteuid()}
    before = time.time() - _LEFT_S
    for one in Path(tempfile.gettempdir()).glob(f'{_PREFIX}*'):
        with contextlib.suppress(FileNotFoundError):
            found = one.lstat()
            # Anybody can make a folder with such a name there.
            if found.st_uid in users and found.st_mtime < before:
                shutil.rmtree(one, ignore_errors=True)


def _inherited() -> list[int]:
    """Return the open files of this process that a program would get beside its own."""
    found = []
    for one in map(int, os.listdir('/proc/self/fd')):
        with contextlib.suppress(OSError):  # the folder itself, which is closed again
            if one > supervisor.SECRETS and os.get_inheritable(one):
                found.append(one)
    return found


def _kill(pid: int, folder: str) -> int:
    """Kill a program and all that it started, and return its status."""
    # The number is not used again before waitpid().
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for _ in range(_TRIES):
        if not (left := supervisor.members(folder, None)):
            break
        supervisor.send(signal.SIGKILL, left)
        select.select([], [], [], _PAUSE_S)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
