"""Exclusive locks of machines, held while something runs on them.

The kernel keeps a lock on the open file. A command inherits the file, so the machine
stays locked exactly as long as any process of the command runs, even if kiln is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
from pathlib import Path


def take_lock(folder: Path, machine: str) -> io.FileIO | None:
    """Lock a machine by a file that is never removed; return None at once if it is locked.

    Closing the file releases the machine, unless a command on it is still running.
    """
    path = folder / f'{machine}.lock'
    file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), 'r+')
    with contextlib.ExitStack() as stack:
        stack.callback(file.close)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        stack.pop_all()
    return file
