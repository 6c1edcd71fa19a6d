"""Comparison of the facts of a value with the types that the contract declares; pure."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Mapping
from typing import Any


def wrong_facts(value: Any) -> Mapping[str, object]:
    """Return the facts of a value that have another type than declared."""
    kind: Any = type(value)
    declared = _declared(kind)
    facts = {name: getattr(value, name, None) for name in declared}
    return {name: fact for name, fact in facts.items() if not fits(fact, declared[name])}


def fits(value: object, declared: Any) -> bool:
    """Return True if a value has a declared type."""
    origin, parts = typing.get_origin(declared), typing.get_args(declared)
    if declared is Any:
        return True
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(one, parts[0]) for one in value)
    if origin is not None:
        if not isinstance(value, origin):
            return False
        if isinstance(value, Mapping):
            return all(fits(one, parts[0]) and fits(value[one], parts[1]) for one in value)
        return True
    if declared is float:
        # Seconds can be whole, but True is not a number of seconds.
        return isinstance(value, float | int) and not isinstance(value, bool)
    return isinstance(value, types.NoneType if declared is None else declared)


@functools.cache
def _declared(kind: type[Any]) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)
