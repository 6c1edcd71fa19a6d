"""Mappings of a driver's templates: parameters, files and outputs, as frozen values."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Protocol

from kiln.cluster_drivers.parameters import HELPING, NAME, NAMING, Parameter
from kiln.cluster_drivers.templates.facts import FACTS
from kiln.cluster_drivers.templates.language import TextTemplate
from kiln.clusters.exceptions import Problem
from kiln.models import InjectedFile

_OWNER = re.compile(r'[a-z_][a-z0-9_-]{0,31}(?::[a-z_][a-z0-9_-]{0,31})?')


class Spot(NamedTuple):
    """Position of a declaration in a file."""

    file: str
    line: int
    column: int = 1

    def problem(self, message: str) -> Problem:
        """Return a mistake at this position."""
        return Problem(message=message, file=self.file, line=self.line, column=self.column)


class Mapped(Protocol):
    """A declaration under a name, with a check for contradictions."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield a field and a message for each contradiction."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ParameterMapping(Parameter):
    """A name in templates, and the source of its value.

    ``source`` is one of :data:`~kiln.cluster_drivers.templates.facts.FACTS`. Without a
    source, the value is the parameter of that name: from the node group, else the cluster,
    else its template, else the default.
    """

    source: str | None = None

    def contradictions(self) -> Iterator[tuple[str, str]]:
        yield from super(ParameterMapping, self).contradictions()
        if self.source is not None and self.source not in FACTS:
            yield 'source', f'nothing is called {self.source!r} here'
        if self.source is not None and (self.required or self.default is not None or self.secret):
            yield 'source', 'a fact is neither required nor secret, and has no default'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FileMapping:
    """A file on each machine, and the template of its content."""

    path: str = ''
    template: str = ''
    mode: int = 0o644
    owner: str = 'root'

    def contradictions(self) -> Iterator[tuple[str, str]]:
        pure = PurePosixPath(self.path)
        if not pure.is_absolute() or '..' in pure.parts or self.path != str(pure):
            yield 'path', 'it must be the absolute path of a file'
        if not 0 <= self.mode <= 0o7777:
            yield 'mode', 'it must be at most 7777, in octal'
        if not _OWNER.fullmatch(self.owner):
            yield 'owner', 'it must be the name of a user, or of a user and a group: root:adm'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OutputMapping:
    """Output of a cluster: text for users about its ready nodes."""

    name: str = ''
    #: In the template language, with the parameters that are not secret and
    #: :data:`~kiln.cluster_drivers.templates.facts.OUTPUT_FACTS`.
    text: str = '{{ node.address }}'
    #: Only nodes of groups with this role count; None means any role.
    role: str | None = None
    #: True for a list with a text for each node; else the text of the oldest node.
    each: bool = False
    help: str = ''

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if not NAME.fullmatch(self.name):
            yield 'name', NAMING
        for problem in TextTemplate(self.text).mistakes:
            yield 'text', problem.message
        if not isinstance(self.each, bool):
            yield 'each', 'it must be true or false'
        if not isinstance(self.help, str):
            yield 'help', HELPING


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """The rendered templates of one node."""

    user_data: bytes | None = dataclasses.field(repr=False)
    files: tuple[InjectedFile, ...]
    #: A secret parameter has the name of its secret in the store.
    params: Mapping[str, Any] = dataclasses.field(repr=False)
