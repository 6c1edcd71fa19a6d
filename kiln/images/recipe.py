"""Recipe values: packages, files, scripts and properties of an image; no I/O."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

#: Incremented when kiln builds a different image from the same recipe.
BUILDER_VERSION = 1
SUITE = 'bookworm'

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Variant(enum.StrEnum):
    """Base system to which the packages of a recipe are added."""

    #: Nothing, not even a shell; packages are unpacked but not configured.
    EXTRACT = 'extract'
    #: The essential packages of Debian.
    ESSENTIAL = 'essential'
    #: The essential packages and apt.
    APT = 'apt'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file added on top of the packages; owned by root."""

    path: str
    content: bytes = dataclasses.field(default=b'', repr=False)
    mode: int = 0o644
    #: Target of a symbolic link; empty for a regular file.
    link: str = ''


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """Files and script of one recipe, applied after all packages are installed."""

    files: tuple[File, ...] = ()
    run: str = ''


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A complete recipe, merged with its bases."""

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
        """Digest of everything that changes the image; the help text is excluded."""
        content = {name: value for name, value in _plain(self).items() if name != 'help'}
        return digest_of({'builder': BUILDER_VERSION, **content})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """Content of one image.yaml; None means the value of the base, or the default."""

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
        """Return the complete recipe: the base with this content added."""
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
    """Return the SHA-256 of a JSON value, independent of the order of keys."""
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
