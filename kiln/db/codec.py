"""Values as JSON text and back, by their type hints alone; pure.

Every field is written, also one that has its default: a later version may have
another default, and what was stored must go on meaning what it meant. A field
that is missing was not there yet when the text was written, so it gets the
default; one that is not known was written by a later version, and is refused,
for what it says would be lost with the next write.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

_T = TypeVar('_T')


class CodecError(ValueError):
    """A text does not hold what it should, or a value cannot be written as text."""


def dumps(value: Any, kind: Any = None) -> str:
    """Return a value as text; its class says how, unless a kind of value is named.

    :raises CodecError: there is something in it that no JSON has.
    """
    kind = type(value) if kind is None else kind
    # ASCII, so that no database has an opinion on what is in it.
    return json.dumps(_codec(kind).plain(value), separators=(',', ':'))


def loads(kind: Any, text: str) -> Any:
    """Return the value of a kind that a text holds.

    :raises CodecError: it holds something else, or something of a later version.
    """
    try:
        plain = json.loads(text)
    except ValueError as exc:
        # Its words would quote the text, and nobody knows what is in that.
        raise CodecError(f'what should be {_name(kind)} is no JSON') from exc.with_traceback(None)
    return _codec(kind).value(plain)


class _Codec(NamedTuple):
    """The two ways between a value and plain data."""

    plain: Callable[[Any], Any]
    value: Callable[[Any], Any]


@functools.cache
def _codec(kind: Any) -> _Codec:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _optional(kind)
    if origin is tuple:
        return _sequence(kind)
    if kind is Mapping or origin is Mapping:
        return _mapping(*(typing.get_args(kind) or (str, Any)))
    if dataclasses.is_dataclass(kind):
        return _record(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _choice(kind)
    if kind in _SCALARS:
        return _scalar(kind)
    if kind is Any:
        return _Codec(_plain, lambda plain: plain)
    raise CodecError(f'{_name(kind)} is no kind of value that can be stored')


_SCALARS: Mapping[Any, tuple[type, ...]] = {
    str: (str,), int: (int,), float: (float, int), bool: (bool,),
}  # fmt: skip


def _scalar(kind: Any) -> _Codec:
    accepted = _SCALARS[kind]

    def check(value: Any) -> Any:
        # Python has True for a number; a number it is not.
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise CodecError(f'{_name(type(value))} stands where {_name(kind)} should')
        return value

    return _Codec(check, check)


def _optional(kind: Any) -> _Codec:
    (inner,) = (one for one in typing.get_args(kind) if one is not types.NoneType)

    # Looked up when it is used: a cause has a cause.
    def plain(value: Any) -> Any:
        return None if value is None else _codec(inner).plain(value)

    def value(plain: Any) -> Any:
        return None if plain is None else _codec(inner).value(plain)

    return _Codec(plain, value)


def _sequence(kind: Any) -> _Codec:
    inner = _codec(typing.get_args(kind)[0])

    def value(plain: Any) -> Any:
        return tuple(map(inner.value, _of(list, plain)))

    return _Codec(lambda value: list(map(inner.plain, value)), value)


def _mapping(key_kind: Any, item_kind: Any) -> _Codec:
    key, item = _codec(key_kind), _codec(item_kind)
    if key_kind is str:

        def plain(value: Any) -> Any:
            return {key.plain(name): item.plain(one) for name, one in value.items()}

        def value(plain: Any) -> Any:
            return MappingProxyType(
                {name: item.value(one) for name, one in _of(dict, plain).items()}
            )

        return _Codec(plain, value)

    # JSON has texts for keys and nothing else, so these are written as pairs.
    def pairs(value: Any) -> Any:
        return [[key.plain(name), item.plain(one)] for name, one in value.items()]

    def unpaired(plain: Any) -> Any:
        return MappingProxyType(
            {key.value(name): item.value(one) for name, one in map(_pair, _of(list, plain))}
        )

    return _Codec(pairs, unpaired)


def _record(kind: Any) -> _Codec:
    hints = typing.get_type_hints(kind)
    # Looked up when they are used: a class may have fields of itself.
    fields = {field.name: hints[field.name] for field in dataclasses.fields(kind)}

    def plain(value: Any) -> Any:
        return {name: _codec(inner).plain(getattr(value, name)) for name, inner in fields.items()}

    def value(plain: Any) -> Any:
        if unknown := sorted(_of(dict, plain).keys() - fields.keys()):
            raise CodecError(
                f'{_name(kind)} has no {", ".join(unknown)}: a later version of kiln wrote it'
            )
        try:
            return kind(**{name: _codec(fields[name]).value(one) for name, one in plain.items()})
        except TypeError as exc:
            raise CodecError(f'{_name(kind)} is not whole: {exc}') from exc

    return _Codec(plain, value)


def _choice(kind: type[enum.Enum]) -> _Codec:
    def value(plain: Any) -> enum.Enum:
        try:
            return kind(plain)
        except ValueError:
            raise CodecError(f'{plain!r} is no {_name(kind)} of this version') from None

    return _Codec(lambda value: value.value, value)


def _plain(value: Any) -> Any:
    """Return what has no type of its own, as JSON has it."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    raise CodecError(f'{_name(type(value))} is no kind of value that can be stored')


def _of(kind: type[_T], plain: Any) -> _T:
    if not isinstance(plain, kind):
        raise CodecError(f'{_name(type(plain))} stands where {_name(kind)} should')
    return plain


def _pair(plain: Any) -> list[Any]:
    if not isinstance(plain, list) or len(plain) != 2:
        raise CodecError('something else stands where a pair should')
    return plain


def _name(kind: Any) -> str:
    return getattr(kind, '__name__', str(kind))
