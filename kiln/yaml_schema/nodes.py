"""YAML tree: uninterpreted values of a file, with their positions."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


@dataclasses.dataclass(frozen=True, slots=True)
class Doubtful:
    """A scalar on which YAML parsers disagree, and the reason."""

    why: str


class Unread(enum.Enum):
    """Placeholder for an invalid value that the YAML reader has already reported."""

    UNREAD = enum.auto()


class Pair(NamedTuple):
    """One entry of a mapping."""

    key: Node
    value: Node


Scalar = None | bool | int | float | str | Doubtful | Unread


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value, its path in the document, and its line and column from 1."""

    value: Scalar | tuple[Node, ...] | Mapping[str, Pair]
    path: str
    line: int
    column: int
    #: A scalar as written, without quotes.
    text: str = ''

    @property
    def entries(self) -> Mapping[str, Pair]:
        """Entries of a mapping; empty for other values."""
        return self.value if isinstance(self.value, Mapping) else {}


def walk(node: Node) -> Iterator[Node]:
    """Yield a value and all values in it, the outermost first."""
    yield node
    entries = (pair.value for pair in node.entries.values())
    for inner in node.value if isinstance(node.value, tuple) else entries:
        yield from walk(inner)


def plain(node: Node) -> Any:
    """Return the value as JSON data; an ambiguous scalar becomes text."""
    if isinstance(node.value, Mapping):
        return {name: plain(pair.value) for name, pair in node.value.items()}
    if isinstance(node.value, tuple):
        return [plain(item) for item in node.value]
    return node.text if isinstance(node.value, Doubtful) else node.value


def described(node: Node) -> str:
    """Return a description of a value, as the beginning of a message."""
    match node.value:
        case None:
            return 'the value is empty'
        case bool():
            return f'{node.text} is a boolean'
        case int() | float():
            return f'{shown(node.text, quoted=False)} is a number'
        case str():
            return f'{shown(node.value)} is text'
        case Doubtful(why=why):
            return f'{shown(node.text, quoted=False)} {why}'
        case tuple():
            return 'this is a list'
        case _:
            return 'this is a mapping'


def shown(text: str, *, quoted: bool = True) -> str:
    """Return a text for a message: printable and shortened."""
    short = text if len(text) <= _SHOWN else f'{text[: _SHOWN - 3]}...'
    return repr(short) if quoted or not short.isprintable() else short


def joined(path: str, name: str) -> str:
    """Return the path of an entry of a mapping."""
    word = shown(name, quoted=False) or "''"
    return f'{path}.{word}' if path else word


_SHOWN = 60
