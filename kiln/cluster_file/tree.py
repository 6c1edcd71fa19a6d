"""What a file holds before anybody asks what it means: values, and where each is."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, NamedTuple


@dataclasses.dataclass(frozen=True, slots=True)
class Doubtful:
    """A scalar that not all who read YAML take for the same, and why."""

    why: str


class Unread(enum.Enum):
    """Stands for a value of which the reader of YAML has told already that it is none."""

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
    #: A scalar as it is written, without its quotes.
    text: str = ''

    @property
    def entries(self) -> Mapping[str, Pair]:
        """What is in it; nothing where it is no mapping."""
        return self.value if isinstance(self.value, Mapping) else {}


def plain(node: Node) -> Any:
    """Return what JSON would have; a doubtful scalar is the text that it was written as."""
    if isinstance(node.value, Mapping):
        return {name: plain(pair.value) for name, pair in node.value.items()}
    if isinstance(node.value, tuple):
        return [plain(item) for item in node.value]
    return node.text if isinstance(node.value, Doubtful) else node.value


def described(node: Node) -> str:
    """Return what a value is, to begin a sentence with."""
    match node.value:
        case None:
            return 'nothing stands here'
        case bool():
            return f'{node.text} is neither text nor a number'
        case int() | float():
            return f'{shown(node.text, quoted=False)} is a number'
        case str():
            return f'{shown(node.value)} is text'
        case Doubtful(why=why):
            return f'{shown(node.text, quoted=False)} {why}'
        case tuple():
            return 'a list stands here'
        case _:
            return 'a mapping stands here'


def shown(text: str, *, quoted: bool = True) -> str:
    """Return a text fit for a line of a message: printable and not too long."""
    short = text if len(text) <= _SHOWN else f'{text[: _SHOWN - 3]}...'
    return repr(short) if quoted or not short.isprintable() else short


def joined(path: str, name: str) -> str:
    """Return the path of an entry of a mapping."""
    word = shown(name, quoted=False) or "''"
    return f'{path}.{word}' if path else word


_SHOWN = 60
