"""Checks of mappings with declared fields: their reader, writer and schema."""

from __future__ import annotations

import dataclasses
import operator
import typing
from collections.abc import Callable, Mapping, Set
from typing import Any

from kiln.yaml_schema.mistake_list import Mistakes, close_to
from kiln.yaml_schema.nodes import Node, shown
from kiln.yaml_schema.value_checks import WRONG, Kind, T, Wrong

#: Titles of the mappings that have a key; filled as mappings are declared.
_HOMES: dict[tuple[str, str], list[str]] = {}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """A key of a mapping."""

    name: str
    kind: Kind[Any]
    #: Meaning, unit and effect, in one or two sentences.
    help: str
    #: The attribute of the value, if its name differs: 'machine.flavor'.
    into: str = ''
    required: bool = False
    #: Names in other tools, to suggest the right key.
    also: tuple[str, ...] = ()

    @property
    def attribute(self) -> str:
        """Path of the attribute in the value."""
        return self.into or self.name


@dataclasses.dataclass(slots=True)
class Found:
    """Fields read from a mapping, and their nodes."""

    node: Node
    #: Valid values by key.
    values: dict[str, Any]
    #: Known keys that are close to the unknown keys in the mapping.
    meant: Set[str | None]
    mistakes: Mistakes

    def at(self, name: str) -> Node:
        """Return the node of a key, or of the mapping if the key is missing."""
        pair = self.node.entries.get(name)
        return pair.value if pair else self.node

    def given(self, name: str) -> bool:
        """Return True if a key is present, even with an invalid value or misspelt."""
        return name in self.node.entries or name in self.meant


class Record(Kind[T]):
    """A mapping with declared keys, read into a value."""

    def __init__(
        self,
        of: Callable[..., T],
        title: str,
        *fields: Field,
        settle: Callable[[Found], None] | None = None,
        shorten: Callable[[dict[str, Any]], None] | None = None,
        rules: Mapping[str, Any] | None = None,
        file: str = 'cluster',
    ) -> None:
        """Declare a mapping.

        :param settle: records mistakes between fields, and adds derived values.
        :param shorten: removes redundant keys from written data.
        :param rules: additions to the JSON schema.
        :param file: kind of file; advice mentions keys of the same kind only.
        """
        self.of = of
        self.title = title
        self.fields = {field.name: field for field in fields}
        self._settle = settle
        self._shorten = shorten
        self._rules = rules or {}
        self._parts = _parts(of)
        self._file = file
        for field in fields:
            _HOMES.setdefault((file, field.name), []).append(title)
        required = [field.name for field in fields if field.required]
        self.words: str = f'a mapping with keys such as {", ".join(required or [fields[0].name])}'

    # ---- reading ----------------------------------------------------------

    def _read(self, node: Node, mistakes: Mistakes) -> T | Wrong:
        if not isinstance(node.value, Mapping):
            return self._refuse(node, mistakes)
        before = mistakes.told
        values: dict[str, Any] = {}
        meant: set[str | None] = set()
        for name, pair in node.entries.items():
            if field := self.fields.get(name):
                value = field.kind.read(pair.value, mistakes)
                if value is not WRONG:
                    values[name] = value
            elif isinstance(pair.key.value, str):
                known, advice = self._advice(name)
                meant.add(known)
                mistakes.add(pair.key, f'unknown key {shown(name)}; {advice}')
        for field in self.fields.values():
            if field.required and field.name not in node.entries and field.name not in meant:
                mistakes.add(node, f'{field.name} is missing; write {field.kind.words}')
        if self._settle:
            self._settle(Found(node, values, meant, mistakes))
        return WRONG if mistakes.told > before else self._made(values)

    def _advice(self, name: str) -> tuple[str | None, str]:
        """Return the field that an unknown key might mean, and what to write instead."""
        called = {other: field.name for field in self.fields.values() for other in field.also}
        known = called.get(name) or close_to(name, self.fields)
        if known:
            return known, f'did you mean {known}?'
        if homes := _HOMES.get((self._file, name)):
            return None, f'it belongs in {" or ".join(homes)}'
        return None, f'write one of {", ".join(self.fields)}'

    def _made(self, values: Mapping[str, Any]) -> T:
        given: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            whole, _, part = self.fields[name].attribute.partition('.')
            if part:
                parts.setdefault(whole, {})[part] = value
            else:
                given[whole] = value
        return self.of(
            **given, **{name: self._parts[name](**part) for name, part in parts.items()}
        )

    # ---- writing ----------------------------------------------------------

    def write(self, value: T) -> dict[str, Any]:
        """Return the plain data of a value, without defaults."""
        written = {}
        for field in self.fields.values():
            held = operator.attrgetter(field.attribute)(value)
            if field.required or held != self.default(field):
                written[field.name] = field.kind.write(held)
        if self._shorten:
            self._shorten(written)
        return written

    def default(self, field: Field) -> Any:
        """Return the default of a field; MISSING if the field is required."""
        whole, _, part = field.attribute.partition('.')
        owner: Any = self._parts[whole] if part else self.of
        declared = next(one for one in dataclasses.fields(owner) if one.name == (part or whole))
        if declared.default_factory is not dataclasses.MISSING:
            return declared.default_factory()
        return declared.default

    # ---- describing -------------------------------------------------------

    def schema(self) -> dict[str, Any]:
        return {
            'type': 'object',
            'description': self.title,
            'properties': {name: self._described(field) for name, field in self.fields.items()},
            'required': [field.name for field in self.fields.values() if field.required],
            'additionalProperties': False,
            **self._rules,
        }

    def _described(self, field: Field) -> dict[str, Any]:
        described = {**field.kind.schema(), 'description': field.help}
        if (default := self.written_default(field)) is not None:
            described['default'] = default
        return described

    def written_default(self, field: Field) -> Any:
        """Return the default of a field as plain data; None without a default."""
        default = self.default(field)
        if field.required or default is dataclasses.MISSING or default is None:
            return None
        written = field.kind.write(default)
        return None if written in ([], {}, '') else written


def _parts(of: Any) -> dict[str, Any]:
    """Return the attributes of a class whose types are dataclasses."""
    hints = typing.get_type_hints(of)
    return {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
