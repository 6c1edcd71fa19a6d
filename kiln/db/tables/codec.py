"""Values as JSON text and back, by their type hints alone; pure.

Every field is written, even one that has its default: a later version may have
another default, and a stored text must keep its meaning. A missing field did
not exist when the text was written, so it gets the default. An unknown field
was written by a later version and is refused, because the next write would
lose its value.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import operator
import types
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class CodecError(ValueError):
    """A text does not hold a value of its kind, or a value cannot be written as text."""


def dumps(value: Any, kind: Any = None) -> str:
    """Return the JSON text of a value, by its class unless a type hint is given.

    :raises CodecError: the value contains something that JSON does not have.
    """
    kind = type(value) if kind is None else kind
    # ASCII, so that the character set of a database does not matter.
    return json.dumps(_codec(kind).plain(value), separators=(',', ':'))


def loads(kind: Any, text: str) -> Any:
    """Return the value that a JSON text holds, by a class or type hint.

    :raises CodecError: the text holds something else, or a value of a later version.
    """
    try:
        plain = json.loads(text)
    except ValueError as exc:
        # The message of json would quote the text, which may hold a secret.
        raise CodecError(f'expected {_name(kind)} as JSON, found other text') from (
            exc.with_traceback(None)
        )
    return _codec(kind).value(plain)


class _Codec(NamedTuple):
    """Functions that turn a value into plain data, and plain data into a value."""

    plain: Callable[[Any], Any]
    value: Callable[[Any], Any]


@functools.cache
def _codec(kind: Any) -> _Codec:
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if types.NoneType in arguments:
        return _optional(*(one for one in arguments if one is not types.NoneType))
    if origin is tuple:
        return _sequence(arguments[0])
    if origin is Mapping:
        return _mapping(*(arguments or (str, Any)))
    if dataclasses.is_dataclass(kind):
        return _record(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _choice(kind)
    if kind in (str, int, float, bool):
        check = functools.partial(_of, kind)
        return _Codec(check, check)
    if kind is Any:
        return _Codec(_plain, lambda plain: plain)
    raise CodecError(f'values of type {_name(kind)} cannot be stored')


def _optional(kind: Any) -> _Codec:
    inner = _codec(kind)
    return _Codec(
        lambda value: None if value is None else inner.plain(value),
        lambda plain: None if plain is None else inner.value(plain),
    )


def _sequence(kind: Any) -> _Codec:
    inner = _codec(kind)
    return _Codec(
        lambda value: list(map(inner.plain, value)),
        lambda plain: tuple(map(inner.value, _of(list, plain))),
    )


def _mapping(key_kind: Any, item_kind: Any) -> _Codec:
    key, item = _codec(key_kind), _codec(item_kind)
    # The keys of JSON are texts; a mapping with other keys is written as pairs.
    named = key_kind is str
    collect: Callable[[Any], Any] = dict if named else list

    def plain(value: Any) -> Any:
        return collect([key.plain(name), item.plain(one)] for name, one in value.items())

    def value(plain: Any) -> Any:
        pairs = _of(dict, plain).items() if named else map(_pair, _of(list, plain))
        return MappingProxyType({key.value(name): item.value(one) for name, one in pairs})

    return _Codec(plain, value)


def _record(kind: Any) -> _Codec:
    # Looked up at first use, because a cause has a field of its own class.
    @functools.cache
    def fields() -> Mapping[str, _Codec]:
        hints = typing.get_type_hints(kind)
        return {field.name: _codec(hints[field.name]) for field in dataclasses.fields(kind)}

    def plain(value: Any) -> Any:
        return {name: inner.plain(getattr(value, name)) for name, inner in fields().items()}

    def value(plain: Any) -> Any:
        known = fields()
        if unknown := sorted(_of(dict, plain).keys() - known.keys()):
            raise CodecError(
                f'{_name(kind)} has no {", ".join(unknown)}: a later version of kiln wrote it'
            )
        try:
            return kind(**{name: known[name].value(one) for name, one in plain.items()})
        except TypeError as exc:
            raise CodecError(f'{_name(kind)} is incomplete: {exc}') from exc

    return _Codec(plain, value)


def _choice(kind: type[enum.Enum]) -> _Codec:
    def value(plain: Any) -> enum.Enum:
        try:
            return kind(plain)
        except ValueError:
            raise CodecError(f'{plain!r} is not a {_name(kind)} of this version') from None

    return _Codec(operator.attrgetter('value'), value)


def _plain(value: Any) -> Any:
    """Return the plain data of a value whose type hint is Any."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    raise CodecError(f'values of type {_name(type(value))} cannot be stored')


def _of(kind: type, plain: Any) -> Any:
    accepted = (float, int) if kind is float else kind
    # bool is a subclass of int, but True is not accepted as a number.
    if not isinstance(plain, accepted) or (isinstance(plain, bool) and kind is not bool):
        raise CodecError(f'expected {_name(kind)}, found {_name(type(plain))}')
    return plain


def _pair(plain: Any) -> list[Any]:
    if not isinstance(plain, list) or len(plain) != 2:
        raise CodecError('expected a pair, found something else')
    return plain


def _name(kind: Any) -> str:
    return getattr(kind, '__name__', str(kind))
