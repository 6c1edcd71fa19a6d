"""Durable and atomic writes of files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def drafted(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield an empty draft that only its owner can read; then put it in place atomically.

    Without ``replace`` an existing file stays, so of several processes the first one wins.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f'.{path.name}.', dir=path.parent) as folder:
        draft = Path(folder, path.name)
        draft.touch(mode=0o600)
        yield draft
        _sync(draft)
        if replace:
            draft.replace(path)
        else:
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
    # Else a power cut could lose a file that is already in use.
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Flush a file or the entries of a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
