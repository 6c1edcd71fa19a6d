"""Entry points of the installed packages, which are read again only once some have changed."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import sys
from importlib.metadata import Distribution, EntryPoint
from typing import Any


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, also of what was installed meanwhile."""
    return tuple(_all(tuple((path, _changed_at(path)) for path in sys.path)).select(group=group))


@functools.lru_cache(maxsize=1)
def _all(_places: tuple[tuple[str, int], ...]) -> Any:  # of another type before Python 3.12
    # Reads two files of each package, those without entry points included.
    return importlib.metadata.entry_points()


def _changed_at(path: str) -> int:
    # To install, upgrade or remove a package changes the names in its folder.
    try:
        return os.stat(path or '.').st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=64)
def title(package: Distribution) -> str:
    """Return the name and the version of a package, for people."""
    # Each of them alone would parse the whole description of the package.
    described = package.metadata
    return f'{described["Name"]} {described["Version"]}'
