"""Isolation of programs: what they are given of kiln's environment, user and limits."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
from typing import Any

from kiln.programs import become
from kiln.programs.accounts import Account

#: Where programs without a folder in their name are found.
PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
#: EX_TEMPFAIL in sysexits.h: the exit status of "try again later".
LATER = 75
MIB = 1024 * 1024
# Limits that a process sets itself have no gap after its start. The units of ulimit are 512
# bytes; the words of the program are not parsed.
_LIMITED = ('/bin/sh', '-c', 'ulimit -c 0 && ulimit -f "$0" && exec "$@"')


def limited(argv: tuple[str, ...], max_disk_mib: int) -> tuple[str, ...]:
    """Return the words that run a program without core files, and with a limit of its files."""
    return (*_LIMITED, _blocks(max_disk_mib), *argv)


def become_user(account: Account | None) -> tuple[str, ...]:
    """Return the words that come before those of a program that runs as another user."""
    if account is None:
        return ()
    groups = ','.join(map(str, account.groups))
    switch_to = (str(account.uid), str(account.gid), groups)
    return (sys.executable, '-I', '-S', become.__file__, *switch_to)


def environment(folder: str) -> dict[str, str]:
    """Return the whole environment of a program, whose home is a folder of its own."""
    return {'PATH': PATH, 'LANG': 'C.UTF-8', 'HOME': folder, 'TMPDIR': folder}


def switch(account: Account | None, *opened: str | int) -> dict[str, Any]:
    """Give directory and files to the user of a program; return what makes it run as that user.

    :raises OSError: kiln is not allowed to.
    """
    if account is None:
        return {}
    # A program that opens /dev/stderr opens the file once more.
    for one in opened:
        os.chown(one, account.uid, account.gid)
    return {'user': account.uid, 'group': account.gid, 'extra_groups': account.groups}


def check_program(program: str) -> None:
    """Check that a program can be run, because the error of the shell would be one of its own.

    :raises OSError: it cannot.
    """
    path = program if os.path.dirname(program) else shutil.which(program, path=PATH) or program
    os.stat(path)
    if not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that leads a group, and the group."""
    # The group ID is the process ID, which is not reused before wait().
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ended_within(pid: int, seconds: float) -> bool:
    """Wait for the end of a child without polling; return whether it came in time."""
    handle = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([handle], [], [], seconds)
    finally:
        os.close(handle)
    return bool(ready)


def _blocks(max_disk_mib: int) -> str:
    """Return the largest size of a file for ulimit, within the limit of kiln itself."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    most = max_disk_mib * MIB
    return str((most if hard == resource.RLIM_INFINITY else min(most, hard)) // 512)
