"""Credentials that systemd gives a service: files that only its processes can read.

systemd copies them when the service starts, and the copies cannot be written.
"""

from __future__ import annotations

import os
from pathlib import Path


def credential(name: str) -> Path | None:
    """Return the file of a credential; None if this process has none of that name."""
    directory = credentials_directory()
    path = directory / name if directory else None
    return path if path and path.exists() else None


def credentials_directory() -> Path | None:
    """Return the directory of the credentials of this process; None without one."""
    named = os.environ.get('CREDENTIALS_DIRECTORY')
    return Path(named) if named else None


def is_credential(path: Path) -> bool:
    """Return True if a file is among the credentials of this process."""
    directory = credentials_directory()
    return directory is not None and path.resolve().is_relative_to(directory.resolve())
