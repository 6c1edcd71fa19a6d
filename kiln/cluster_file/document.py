"""Serialization of specifications to plain data for the store, and back.

The data have the structure of the dataclasses. All fields are stored, so a later change of
a default does not change existing clusters.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from kiln.cluster_exceptions import StoreError
from kiln.cluster_spec import ClusterSpec, ClusterTemplate, NodeGroupSpec

S = TypeVar('S', ClusterSpec, ClusterTemplate, NodeGroupSpec)


def to_document(value: ClusterSpec | ClusterTemplate | NodeGroupSpec) -> dict[str, Any]:
    """Return a specification as JSON data."""
    document: dict[str, Any] = _plain(value)
    return document


def from_document(kind: type[S], document: Mapping[str, Any]) -> S:
    """Return the specification from the data that ``to_document`` returned.

    Fields that an older version of kiln did not write have their defaults.

    :raises StoreError: the data were written by a newer version, or are damaged.
    """
    value: S = _value(kind, document, kind.__name__)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(item) for key, item in value.items()}
        # JSON keys can only be text.
        return [[_plain(key), _plain(item)] for key, item in value.items()]
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _value(kind: Any, data: Any, path: str) -> Any:
    """Return the value of a type from its plain data."""
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, data, path)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        return None if data is None else _value(arguments[0], data, path)
    if origin is tuple:
        return tuple(_items(arguments[0], _of(list, data, path), path))
    if origin is Mapping:
        return MappingProxyType(_mapping(arguments[0], arguments[1], data, path))
    if issubclass(kind, enum.Enum):
        try:
            return kind(data)
        except ValueError:
            raise _unreadable(path, f'{data!r} is not one of {", ".join(kind)}') from None
    if kind is float and type(data) is int:
        # A store with its own JSON format can drop the fraction.
        return float(data)
    return _of(kind, data, path)


def _dataclass(kind: Any, data: Any, path: str) -> Any:
    hints = typing.get_type_hints(kind)
    for name in _of(dict, data, path):
        if name not in hints:
            raise _unreadable(f'{path}.{name}', 'this version does not know the key')
    values = {name: _value(hints[name], item, f'{path}.{name}') for name, item in data.items()}
    try:
        return kind(**values)
    except TypeError as exc:
        raise _unreadable(path, 'something is missing') from exc


def _items(kind: Any, data: list[Any], path: str) -> list[Any]:
    return [_value(kind, item, f'{path}[{index}]') for index, item in enumerate(data)]


def _mapping(key: Any, item: Any, data: Any, path: str) -> dict[Any, Any]:
    if key is str or data == {}:
        return {
            name: _value(item, one, f'{path}.{name}')
            for name, one in _of(dict, data, path).items()
        }
    pairs = [_of(list, pair, path) for pair in _of(list, data, path)]
    if any(len(pair) != 2 for pair in pairs):
        raise _unreadable(path, 'a pair is damaged')
    return {_value(key, left, path): _value(item, right, path) for left, right in pairs}


def _of(kind: Any, data: Any, path: str) -> Any:
    # isinstance() would accept a bool as an int.
    if type(data) is not kind:
        raise _unreadable(path, f'{type(data).__name__} instead of {kind.__name__}')
    return data


def _unreadable(path: str, why: str) -> StoreError:
    return StoreError(
        f'Cannot read the stored data at {path}: {why}. If a newer version of kiln wrote '
        f'them, use that version or a later one.'
    )
