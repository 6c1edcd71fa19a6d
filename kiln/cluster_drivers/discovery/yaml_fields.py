"""Keys of driver.yaml."""

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
from kiln.yaml_schema.container_checks import ListOf
from kiln.yaml_schema.mapping_checks import Field, Record
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.nodes import Node
from kiln.yaml_schema.value_checks import Choice, Flag, Kind, Paragraphs, Text, Wrong

FILE_KIND = 'driver'


class Base(enum.StrEnum):
    """Base of a driver without Python."""

    #: kiln's engine builds the nodes, from templates.
    NODES = 'nodes'
    #: A program builds the clusters.
    COMMAND = 'command'
    #: Heat builds them, from a template of its own.
    HEAT = 'heat'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """Contents of a driver.yaml."""

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
    """A file: a mapping, or the name of its template alone."""

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


#: The keys that say which values a parameter takes.
VALUES = (
    Field(name='type', kind=Choice(ParameterType), help='The type of its value.'),
    Field(name='required', kind=Flag(), help='Whether every cluster must set it.'),
    Field(name='default', kind=Value(), help='The value if none is set.'),
    Field(
        name='choices', kind=ListOf(Value(), 'a list of values', least=1),
        help='The allowed values.',
    ),
    Field(name='minimum', kind=Number(), help='The smallest allowed value.', also=('min',)),
    Field(name='maximum', kind=Number(), help='The largest allowed value.', also=('max',)),
    Field(
        name='secret', kind=Flag(),
        help='Whether its value is the name of a secret of the site, not the secret itself.',
    ),
)  # fmt: skip
HELP = Field(name='help', kind=Paragraphs(), help='What it does, and its unit.')

PARAMETER = Record(
    ParameterMapping,
    'a parameter',
    *VALUES,
    Field(
        name='from', into='source', kind=Text(f'one of {", ".join(sorted(FACTS))}'),
        help='The fact that gives its value; clusters cannot set it then.', also=('source',),
    ),
    HELP,
    settle=settled(ParameterMapping, source='from'),
    file=FILE_KIND,
)  # fmt: skip

_TEMPLATE = Text('the name of a file in templates')

FILE = Record(
    FileMapping,
    'a file',
    Field(name='template', kind=_TEMPLATE, required=True, help='The template of its content.'),
    Field(name='mode', kind=Mode(), help='Its permissions.', also=('permissions',)),
    Field(
        name='owner', kind=Text('the name of a user, or USER:GROUP'),
        help='Its user, or user and group.'
    ),
    settle=settled(FileMapping),
    file=FILE_KIND,
)  # fmt: skip

OUTPUT = Record(
    OutputMapping,
    'an output',
    Field(
        name='text', kind=Paragraphs(),
        help='The text for one ready node, in the language of templates.',
    ),
    Field(name='role', kind=Text('the role of a group'),
        help='The role of the group that a node must be in.'),
    Field(
        name='each', kind=Flag(), help='Whether it is a list with a text for each node, and not '
        'the text for the oldest.',
    ),
    Field(name='help', kind=Paragraphs(), help='What it shows.'),
    settle=settled(OutputMapping),
    file=FILE_KIND,
)  # fmt: skip


#: The keys that all drivers have, whatever their base.
NAMING = (
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
    Field(name='beta', kind=Flag(), help='Whether only sites that enable it have it.'),
    Field(name='base', kind=Choice(Base), help='The base of the driver.'),
)  # fmt: skip

DRIVER = Record(
    Declared,
    'a driver',
    *NAMING,
    Field(
        name='parameters',
        kind=Named(PARAMETER, ParameterMapping, 'name', 'a mapping of names to parameters'),
        help='The parameters that the owner of a cluster can set.',
    ),
    Field(name='user_data', kind=_TEMPLATE, help='The template of the user data of each machine.'),
    Field(
        name='files',
        kind=Named(_File(FILE, _TEMPLATE), FileMapping, 'path', 'a mapping of paths to templates'),
        help='Files on each machine, by their absolute paths.',
    ),
    Field(
        name='outputs', kind=Named(OUTPUT, OutputMapping, 'name', 'a mapping of names to outputs'),
        help='What users are shown once nodes are ready.',
    ),
    Field(name='ready', kind=Ready(), help='The rule by which a node is ready.'),
    file=FILE_KIND,
)  # fmt: skip
