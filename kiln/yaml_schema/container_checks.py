"""Checks of lists, counts, and arbitrary JSON values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.nodes import Doubtful, Node, described, plain, shown, walk
from kiln.yaml_schema.value_checks import Kind, T, Text, Whole, Wrong

_NAME = Text('a name')


class ListOf(Kind[tuple[T, ...]]):
    """A list of values, optionally unique."""

    def __init__(self, item: Kind[T], words: str, *, least: int = 0, unique: bool = True) -> None:
        self.item = item
        self.words = words
        self._least, self._unique = least, unique

    def _read(self, node: Node, mistakes: Mistakes) -> tuple[T, ...] | Wrong:
        if not isinstance(node.value, tuple):
            return self._refuse(node, mistakes)
        if len(node.value) < self._least:
            mistakes.add(node, f'the list is empty; write {self.words}, or remove the key')
        items: list[T] = []
        seen: set[T] = set()
        for one in node.value:
            item = self.item.read(one, mistakes)
            if isinstance(item, Wrong):
                continue
            items.append(item)
            # Only items of unique lists are hashable.
            if self._unique and item in seen:
                name = shown(one.text, quoted=False)
                mistakes.add(one, f'{name} is already in the list; write it once')
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


class MapOf(Kind[Mapping[str, T]]):
    """A mapping of names to values of one kind."""

    def __init__(self, item: Kind[T], words: str, *, name: Text = _NAME, least: int = 0) -> None:
        self._item, self._name, self._least = item, name, least
        self.words = words

    def _read(self, node: Node, mistakes: Mistakes) -> Mapping[str, T] | Wrong:
        if not isinstance(node.value, Mapping):
            return self._refuse(node, mistakes)
        if len(node.value) < self._least:
            mistakes.add(node, f'the mapping is empty; write {self.words}, or remove the key')
        found = {}
        for name, pair in node.value.items():
            # Keys that are not text have already been reported.
            if isinstance(pair.key.value, str):
                self._name.read(pair.key, mistakes)
            found[name] = self._item.read(pair.value, mistakes)
        return MappingProxyType({k: v for k, v in found.items() if not isinstance(v, Wrong)})

    def write(self, value: Mapping[str, T]) -> dict[str, Any]:
        return {name: self._item.write(item) for name, item in value.items()}

    def schema(self) -> dict[str, Any]:
        return {
            'type': 'object',
            'propertyNames': self._name.schema(),
            'additionalProperties': self._item.schema(),
            'minProperties': self._least,
        }


class Counts(MapOf[int]):
    """A mapping of names to counts."""

    def __init__(self, most: int, words: str) -> None:
        super().__init__(Whole(0, most), words, least=1)


class Anything(Kind[Mapping[str, Any]]):
    """A mapping of names to arbitrary JSON values."""

    words = 'a mapping of names to values'

    def _read(self, node: Node, mistakes: Mistakes) -> Mapping[str, Any] | Wrong:
        if not isinstance(node.value, Mapping):
            return self._refuse(node, mistakes)
        for one in walk(node):
            if isinstance(one.value, Doubtful):
                better = f'write it in quotes if text is meant: {one.text!r}'
                mistakes.add(one, f'{described(one)}; {better}')
            for text in (one, *(pair.key for pair in one.entries.values())):
                if _HALF.search(text.text):
                    mistakes.add(text, _HALVED)
        return MappingProxyType(plain(node))

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return dict(value)

    def schema(self) -> dict[str, Any]:
        return {'type': 'object'}


_HALF = re.compile('[\ud800-\udfff]')
_HALVED = 'the text contains half of a surrogate pair; write a whole character'
