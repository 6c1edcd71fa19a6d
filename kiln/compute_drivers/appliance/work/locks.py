"""Exclusive locks of machines, held while something runs on them.

The kernel keeps a lock on the open file. A command inherits the file, so the machine
stays locked exactly as long as any process of the command runs, even if kiln is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


class MachineLock:
    """The lock of a machine, held by this process and the commands that inherit it."""

    def __init__(self, fd: int) -> None:
        #: To be inherited by commands on the machine.
        self.fd = fd

    def release(self) -> None:
        """Release the machine, unless a command on it is still running."""
        os.close(self.fd)


class MachineLocks:
    """The locks of a pool, as files in a directory that are never removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, machine: str) -> MachineLock | None:
        """Lock a machine; return None at once if it is locked."""
        fd = os.open(
            self._folder / f'{machine}.lock', os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            stack.pop_all()
        return MachineLock(fd)
