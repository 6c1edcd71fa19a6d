"""Line numbers of the keys of a TOML document, which tomllib does not report."""

from __future__ import annotations

import io
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

#: The keys that lead to a value.
Path = tuple[str, ...]


def lines_of(text: str) -> Mapping[Path, int]:
    """Return the line of each key and table of a valid TOML document."""
    found: dict[Path, int] = {}
    table: Path = ()
    for line, statement in _statements(text):
        is_header = statement.lstrip().startswith('[')
        paths = list(_paths(tomllib.loads(statement)))
        if is_header:
            # The tables above it come first.
            table = paths[-1]
        for path in paths:
            found.setdefault(path if is_header else table + path, line)
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement with its first line.

    An array or a string over several lines is not valid TOML until it is complete, so a
    statement ends with the first line at which it can be parsed.
    """
    kept, began = '', 1
    # TOML knows fewer ends of lines than str.splitlines().
    for number, line in enumerate(io.StringIO(text), 1):
        if not kept:
            began = number
        kept += line
        try:
            tomllib.loads(kept)
        except tomllib.TOMLDecodeError:
            continue
        yield began, kept
        kept = ''


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    # The tables of an array have no names, so they are skipped.
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))
