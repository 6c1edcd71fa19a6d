"""Folders of the tool: cached roots, and the scratch folders of runs."""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping

from tools import command

from .errors import FreshrootError

#: These characters separate the options of an overlay.
_FORBIDDEN = frozenset(',:\\')


def default_home(environ: Mapping[str, str] = os.environ) -> pathlib.Path:
    """Return the folder that KILN_ROOTS_HOME names, or one in the user's cache."""
    return command.default_home('KILN_ROOTS_HOME', 'kiln-freshroot', environ, cached=True)


@dataclasses.dataclass(frozen=True)
class Place:
    """The folders under one home."""

    home: pathlib.Path

    def __post_init__(self) -> None:
        if _FORBIDDEN & set(str(self.home)):
            raise FreshrootError(f'{self.home}: choose a --home without comma, colon or backslash')

    @property
    def roots(self) -> pathlib.Path:
        """Cached roots, each in a folder named by its hash."""
        return self.home / 'roots'

    @property
    def runs(self) -> pathlib.Path:
        """Scratch folders, one for each run."""
        return self.home / 'runs'

    @contextlib.contextmanager
    def scratch(self) -> Iterator[pathlib.Path]:
        """Make a folder for one run, and remove it afterwards."""
        with command.alone(self.home):
            self.sweep()
            self.runs.mkdir(exist_ok=True)
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.runs))
            lock = (folder / 'lock').open('w')
            # The kernel lets go of it when the run ends, however it ends.
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.close()

    def sweep(self) -> None:
        """Remove the folders of runs that were killed."""
        for folder in self.runs.glob('*'):
            with contextlib.suppress(OSError), (folder / 'lock').open('w') as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
