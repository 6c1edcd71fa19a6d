"""What an image is made of, as values; pure."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

#: Raised when kiln makes something else of the same recipe.
BUILDER_VERSION = 1
SUITE = 'bookworm'

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Variant(enum.StrEnum):
    """What is there before the packages of a recipe are."""

    #: Nothing, not even a shell; the packages are unpacked and not set up.
    EXTRACT = 'extract'
    #: What every Debian system has.
    ESSENTIAL = 'essential'
    #: That and apt.
    APT = 'apt'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file that is laid over those of the packages; it belongs to root."""

    path: str
    content: bytes = dataclasses.field(default=b'', repr=False)
    mode: int = 0o644
    #: Where it leads, if it is a symbolic link.
    link: str = ''


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """What one recipe adds once all packages are installed: its files, and then its script."""

    files: tuple[File, ...] = ()
    run: str = ''


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """All that an image is made of, what it has from others included."""

    name: str
    help: str = ''
    variant: Variant = Variant.APT
    suite: str = SUITE
    packages: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    command: tuple[str, ...] = ()
    properties: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NOTHING)
    keep_sources: bool = False

    @property
    def digest(self) -> str:
        """What changes with anything that makes another image; not with the words of help."""
        content = {name: value for name, value in _plain(self).items() if name != 'help'}
        return digest_of({'builder': BUILDER_VERSION, **content})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """What one image.yaml says; None is left to the base, or to what is usual."""

    name: str
    help: str = ''
    base: str | None = None
    variant: Variant | None = None
    suite: str | None = None
    packages: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    run: str = ''
    command: tuple[str, ...] = ()
    properties: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NOTHING)
    keep_sources: bool | None = None

    def upon(self, base: Recipe | None, files: tuple[File, ...]) -> Recipe:
        """Return the whole recipe: what the base has, and then what is said here."""
        below = base or Recipe(name=self.name)
        return Recipe(
            name=self.name,
            help=self.help,
            variant=self.variant or below.variant,
            suite=self.suite or below.suite,
            packages=_joined(below.packages, self.packages),
            exclude=_joined(below.exclude, self.exclude),
            keep=_joined(below.keep, self.keep),
            layers=(*below.layers, Layer(files=files, run=self.run)),
            command=self.command or below.command,
            properties=MappingProxyType({**below.properties, **self.properties}),
            keep_sources=below.keep_sources if self.keep_sources is None else self.keep_sources,
        )


def digest_of(value: Any) -> str:
    """Return the SHA-256 of what JSON can hold, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(',', ':'))
    return hashlib.sha256(text.encode()).hexdigest()


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
