"""Kinds of values that hold others: lists, counts, and whatever JSON can hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kiln.cluster_file.kinds import Kind, T, Text, Whole, Wrong
from kiln.cluster_file.mistakes import Mistakes
from kiln.cluster_file.tree import Doubtful, Node, described, plain, shown


class ListOf(Kind[tuple[T, ...]]):
    """A list of values, each different from the others if they are to be unique."""

    def __init__(self, item: Kind[T], words: str, *, least: int = 0, unique: bool = True) -> None:
        self.item = item
        self.words = words
        self._least, self._unique = least, unique

    def _read(self, node: Node, mistakes: Mistakes) -> tuple[T, ...] | Wrong:
        if not isinstance(node.value, tuple):
            return self._refuse(node, mistakes)
        if len(node.value) < self._least:
            mistakes.add(node, f'the list is empty; write {self.words}, or take the key out')
        items: list[T] = []
        seen: set[T] = set()
        for one in node.value:
            item = self.item.read(one, mistakes)
            if isinstance(item, Wrong):
                continue
            items.append(item)
            # Only what is to be unique has a hash.
            if self._unique and item in seen:
                name = shown(one.text, quoted=False)
                mistakes.add(one, f'{name} is in the list already; write it once')
            elif self._unique:
                seen.add(item)
        return tuple(items)

    def write(self, value: tuple[T, ...]) -> list[Any]:
        return [self.item.write(item) for item in value]

    def schema(self) -> dict[str, Any]:
        return {
            'type': 'array',
            'items': self.item.schema(),
            'minItems': self._least,
            'uniqueItems': self._unique,
        }


class Counts(Kind[Mapping[str, int]]):
    """How many of each."""

    def __init__(self, most: int, words: str) -> None:
        self._each = Whole(0, most)
        self._name = Text('a name')
        self.words = words

    def _read(self, node: Node, mistakes: Mistakes) -> Mapping[str, int] | Wrong:
        if not isinstance(node.value, Mapping):
            return self._refuse(node, mistakes)
        if not node.value:
            mistakes.add(node, f'the mapping is empty; write {self.words}, or take the key out')
        counts = {}
        for name, pair in node.value.items():
            # A key that is no text has been told of.
            if isinstance(pair.key.value, str):
                self._name.read(pair.key, mistakes)
            counts[name] = self._each.read(pair.value, mistakes)
        return MappingProxyType({k: v for k, v in counts.items() if not isinstance(v, Wrong)})

    def write(self, value: Mapping[str, int]) -> dict[str, int]:
        return dict(value)

    def schema(self) -> dict[str, Any]:
        return {
            'type': 'object',
            'propertyNames': self._name.schema(),
            'additionalProperties': self._each.schema(),
            'minProperties': 1,
        }


class Anything(Kind[Mapping[str, Any]]):
    """A mapping of names to whatever JSON can hold."""

    words = 'a mapping of names to values'

    def _read(self, node: Node, mistakes: Mistakes) -> Mapping[str, Any] | Wrong:
        if not isinstance(node.value, Mapping):
            return self._refuse(node, mistakes)
        for doubt in _doubts(node):
            if isinstance(doubt.value, Doubtful):
                better = f'write it in quotes if text is meant: {doubt.text!r}'
                mistakes.add(doubt, f'{described(doubt)}; {better}')
            else:
                mistakes.add(doubt, 'the text has half of a character; write a whole one')
        return MappingProxyType(plain(node))

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return dict(value)

    def schema(self) -> dict[str, Any]:
        return {'type': 'object'}


def _doubts(node: Node) -> Iterable[Node]:
    """Yield what could not be kept as it is: doubtful scalars, and halves of characters."""
    if isinstance(node.value, tuple):
        for item in node.value:
            yield from _doubts(item)
    for pair in node.entries.values():
        # Of a key that is no text has been told.
        if _HALF.search(pair.key.text):
            yield pair.key
        yield from _doubts(pair.value)
    if isinstance(node.value, Doubtful) or _HALF.search(node.text):
        yield node


_HALF = re.compile('[\ud800-\udfff]')
