"""Locks of machines: who holds one may run something on that machine, and nobody else.

The kernel keeps them on the open file. A command inherits it, so the machine stays
locked for as long as anything of the command runs, also where kiln itself was killed;
and no longer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


class MachineLock:
    """A machine that is locked by this process, or by a command it has left."""

    def __init__(self, fd: int) -> None:
        #: To be inherited by what is run on the machine.
        self.fd = fd

    def release(self) -> None:
        """Let go of the machine, as far as nothing runs there any more."""
        os.close(self.fd)


class MachineLocks:
    """The locks of a pool, as files in a directory; they are never removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, machine: str) -> MachineLock | None:
        """Lock a machine; return None at once where somebody has it."""
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
