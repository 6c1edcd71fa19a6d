"""What may be written in a driver.yaml: every key, once."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.discovery.yaml_types import (
    Mode,
    Named,
    Number,
    Ready,
    TypeOfCluster,
    Value,
    settled,
)
from kiln.cluster_drivers.parameters import ParameterType
from kiln.cluster_drivers.readiness import ReadyRule, WhenActive
from kiln.cluster_drivers.records import NAME, VERSION, ClusterType
from kiln.cluster_drivers.templates.facts import FACTS
from kiln.cluster_drivers.templates.mappings import FileMapping, OutputMapping, ParameterMapping
from kiln.yaml_schema.containers import ListOf
from kiln.yaml_schema.mapping import Field, Record
from kiln.yaml_schema.nodes import Node
from kiln.yaml_schema.problems import Mistakes
from kiln.yaml_schema.types import Choice, Flag, Kind, Paragraphs, Text, Wrong

_FILE = 'driver'


class Base(enum.StrEnum):
    """What a driver without Python is built on."""

    NODES = 'nodes'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """What a driver.yaml says."""

    name: str
    version: str
    provides: tuple[ClusterType, ...]
    beta: bool = False
    base: Base = Base.NODES
    parameters: Mapping[str, ParameterMapping] = dataclasses.field(default_factory=dict)
    user_data: str | None = None
    files: Mapping[str, FileMapping] = dataclasses.field(default_factory=dict)
    outputs: Mapping[str, OutputMapping] = dataclasses.field(default_factory=dict)
    ready: ReadyRule = dataclasses.field(default_factory=WhenActive)


class _File(Kind[FileMapping]):
    """A file; its template alone is enough."""

    words = 'the name of a file in templates, or a mapping with template and so on'

    def __init__(self, whole: Record[FileMapping], name: Text) -> None:
        self._whole, self._name = whole, name

    def _read(self, node: Node, mistakes: Mistakes) -> FileMapping | Wrong:
        if isinstance(node.value, Mapping):
            return self._whole.read(node, mistakes)
        name = self._name.read(node, mistakes)
        return name if isinstance(name, Wrong) else FileMapping(template=name)

    def write(self, value: FileMapping) -> Any:
        return self._whole.write(value)

    def schema(self) -> dict[str, Any]:
        return {'anyOf': [self._name.schema(), self._whole.schema()]}


PARAMETER = Record(
    ParameterMapping,
    'a parameter',
    Field(name='type', kind=Choice(ParameterType), help='What kind of value it takes.'),
    Field(name='required', kind=Flag(), help='Whether there is no cluster without it.'),
    Field(name='default', kind=Value(), help='The value where nobody writes one.'),
    Field(
        name='choices', kind=ListOf(Value(), 'a list of values', least=1),
        help='The only values that it may have.',
    ),
    Field(name='minimum', kind=Number(), help='The least that it may be.', also=('min',)),
    Field(name='maximum', kind=Number(), help='The most that it may be.', also=('max',)),
    Field(
        name='secret', kind=Flag(),
        help='Whether people write the name of a secret of the site, and not the secret.',
    ),
    Field(
        name='from', into='source', kind=Text(f'one of {", ".join(sorted(FACTS))}'),
        help='The fact that it is; then nobody writes it.', also=('source',),
    ),
    Field(name='help', kind=Paragraphs(), help='What it does, in what unit.'),
    settle=settled(ParameterMapping, source='from'),
    file=_FILE,
)  # fmt: skip

_TEMPLATE = Text('the name of a file in templates')

FILE = Record(
    FileMapping,
    'a file',
    Field(name='template', kind=_TEMPLATE, required=True, help='What it is made of.'),
    Field(name='mode', kind=Mode(), help='Its rights.', also=('permissions',)),
    Field(
        name='owner', kind=Text('the name of a user, or USER:GROUP'), help='Who it belongs to.'
    ),
    settle=settled(FileMapping),
    file=_FILE,
)  # fmt: skip

OUTPUT = Record(
    OutputMapping,
    'an output',
    Field(
        name='text', kind=Paragraphs(),
        help='The text for one ready node, in the language of templates.',
    ),
    Field(name='role', kind=Text('the role of a group'), help='The role that a node must have.'),
    Field(
        name='each', kind=Flag(), help='Whether it is a list with a text for each node, and not '
        'the text for the oldest.',
    ),
    Field(name='help', kind=Paragraphs(), help='What it is.'),
    settle=settled(OutputMapping),
    file=_FILE,
)  # fmt: skip


DRIVER = Record(
    Declared,
    'a driver',
    Field(
        name='name', kind=Text('a name', longest=63, pattern=NAME.pattern),
        required=True, help='The name of its directory.',
    ),
    Field(
        name='version', required=True,
        kind=Text('a version such as 1.0.0', pattern=VERSION.pattern),
        help='Three numbers; clusters stay with the version that built them.',
    ),
    Field(
        name='provides', required=True,
        kind=ListOf(TypeOfCluster(), f'a list of {TypeOfCluster.words}', least=1),
        help='The types of cluster that it builds.',
    ),
    Field(name='beta', kind=Flag(), help='Whether only sites that ask for it have it.'),
    Field(name='base', kind=Choice(Base), help='What it is built on.'),
    Field(
        name='parameters',
        kind=Named(PARAMETER, ParameterMapping, 'name', 'a mapping of names to parameters'),
        help='What the owner of a cluster may tell its templates.',
    ),
    Field(name='user_data', kind=_TEMPLATE, help='The template of the user data of each machine.'),
    Field(
        name='files',
        kind=Named(_File(FILE, _TEMPLATE), FileMapping, 'path', 'a mapping of paths to templates'),
        help='Files on each machine, by their absolute paths.',
    ),
    Field(
        name='outputs', kind=Named(OUTPUT, OutputMapping, 'name', 'a mapping of names to outputs'),
        help='What people are told of a cluster once nodes of it are ready.',
    ),
    Field(name='ready', kind=Ready(), help='How a node is known to be ready.'),
    file=_FILE,
)  # fmt: skip
