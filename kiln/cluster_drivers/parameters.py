"""Parameters of a driver that the owner of a cluster sets: types and bounds."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

#: The names of parameters and outputs.
NAME = re.compile(r'[a-z][a-z0-9_]{0,62}')
NAMING = 'a name has lowercase letters, digits and underscores, and begins with a letter'
_URL_PASSWORD = re.compile(r'://[^/\s:@]*+:[^/\s@]++@')
HELPING = 'it must be a text for people'


class ParameterType(enum.StrEnum):
    """Type of a parameter's value; values are never converted."""

    STRING = 'string'
    INTEGER = 'integer'
    NUMBER = 'number'
    BOOLEAN = 'boolean'
    LIST = 'list'
    MAP = 'map'

    def takes(self, value: object) -> bool:
        """Return True if a value has this type."""
        if isinstance(value, bool):
            return self is ParameterType.BOOLEAN
        if isinstance(value, float) and not math.isfinite(value):
            return False
        return isinstance(value, _TYPES[self][0])


#: The Python type of the values of each type, and its name in messages.
_TYPES: Mapping[ParameterType, tuple[Any, str]] = MappingProxyType(
    {
        ParameterType.STRING: (str, 'a string'),
        ParameterType.INTEGER: (int, 'a whole number'),
        ParameterType.NUMBER: (int | float, 'a number'),
        ParameterType.BOOLEAN: (bool, 'true or false'),
        ParameterType.LIST: (list | tuple, 'a list'),
        ParameterType.MAP: (Mapping, 'a mapping'),
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One value that a driver takes.

    A secret parameter takes the *name* of a secret in the site's store; the secret is fetched
    when a node is built, and is stored nowhere else. It can have any characters on its line. A
    value that is a password, a token or a private key is declared secret.
    """

    name: str = ''
    type: ParameterType = ParameterType.STRING
    required: bool = False
    #: The value if nothing else is set; None if the parameter has no default.
    default: Any = None
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    secret: bool = False
    help: str = ''

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield a field and a message for each contradiction in the declaration."""
        if not NAME.fullmatch(self.name):
            yield 'name', NAMING
        if self.secret and self.type is not ParameterType.STRING:
            yield 'type', 'a secret is given by its name, a string'
        for field in ('default', 'choices'):
            if self.secret and getattr(self, field):
                yield field, f'a secret parameter has no {field}'
        if self.required and self.default is not None:
            yield 'required', 'a parameter with a default is not required'
        yield from self._impossible_bounds()
        if not all(self.type.takes(choice) for choice in self.choices):
            yield 'choices', f'each must be a {self.type}'
        if self.default is not None and (wrong := self.wrong(self.default)):
            yield 'default', wrong
        if not isinstance(self.help, str):
            yield 'help', HELPING

    def _impossible_bounds(self) -> Iterator[tuple[str, str]]:
        numeric = self.type in (ParameterType.INTEGER, ParameterType.NUMBER)
        for field, bound in (('minimum', self.minimum), ('maximum', self.maximum)):
            if bound is not None and not numeric:
                yield field, f'a {self.type} has no {field}'
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            yield 'maximum', 'it is below the minimum'

    def wrong(self, value: Any) -> str:
        """Return why a value is not allowed, without quoting it; empty if it is allowed."""
        if not self.type.takes(value):
            return f'it must be {_TYPES[self.type][1]}, not {_kind(value)}'
        if self.choices and value not in self.choices:
            return f'it must be one of {", ".join(map(str, self.choices))}'
        if self.minimum is not None and value < self.minimum:
            return f'it must be at least {self.minimum:g}'
        if self.maximum is not None and value > self.maximum:
            return f'it must be at most {self.maximum:g}'
        if _has_password(value):
            return 'it has a password in a URL, and is stored as it is; leave the password out'
        return ''


def _has_password(value: object) -> bool:
    if isinstance(value, str):
        return _URL_PASSWORD.search(value) is not None
    if isinstance(value, Mapping):
        return any(map(_has_password, (*value, *value.values())))
    return isinstance(value, list | tuple) and any(map(_has_password, value))


def _kind(value: object) -> str:
    for kind, (_, name) in _TYPES.items():
        if kind.takes(value):
            return name
    return 'nothing' if value is None else f'a {type(value).__name__}'
