"""Keys of the driver.yaml of a driver whose base is Heat."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from kiln.cluster_drivers.discovery.yaml_fields import FILE_KIND, HELP, NAMING, VALUES, Base
from kiln.cluster_drivers.discovery.yaml_types import Named, settled
from kiln.cluster_drivers.heat.definition import TEMPLATE
from kiln.cluster_drivers.heat.mappings import FACTS, OutputMapping, ParameterMapping
from kiln.cluster_drivers.records import ClusterType
from kiln.yaml_schema.mapping_checks import Field, Record
from kiln.yaml_schema.value_checks import Paragraphs, Text


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class HeatDeclared:
    """Contents of the driver.yaml of a driver on Heat."""

    name: str
    version: str
    provides: tuple[ClusterType, ...]
    beta: bool = False
    base: Base = Base.HEAT
    template: str = TEMPLATE
    parameters: Mapping[str, ParameterMapping] = dataclasses.field(default_factory=dict)
    outputs: Mapping[str, OutputMapping] = dataclasses.field(default_factory=dict)


_PARAMETER = Record(
    ParameterMapping,
    'a parameter of a stack',
    *VALUES,
    Field(
        name='from', into='source', kind=Text(f'one of {", ".join(sorted(FACTS))}'),
        help='The fact that gives its value; clusters cannot set it then.', also=('source',),
    ),
    Field(
        name='group', kind=Text('the name of a group'),
        help='The group that the value is of; without it, the whole cluster.',
    ),
    HELP,
    settle=settled(ParameterMapping, source='from'),
    file=FILE_KIND,
)  # fmt: skip

_OUTPUT = Record(
    OutputMapping,
    'an output of a stack',
    Field(
        name='output', kind=Text('the name of an output of the template'),
        help='The output of the template; without it, the one of the same name.',
    ),
    Field(
        name='group', kind=Text('the name of a group'),
        help='The group of whose members it is a map by number; shown by the names of the nodes.',
    ),
    Field(name='help', kind=Paragraphs(), help='What it shows.'),
    settle=settled(OutputMapping),
    file=FILE_KIND,
)  # fmt: skip

HEAT_DRIVER = Record(
    HeatDeclared,
    'a driver on Heat',
    *NAMING,
    Field(
        name='template', kind=Text('the name of a file in templates'),
        help='The template of the stack.',
    ),
    Field(
        name='parameters',
        kind=Named(_PARAMETER, ParameterMapping, 'name', 'a mapping of names to parameters'),
        help='The parameters of the template, and where their values are from.',
    ),
    Field(
        name='outputs',
        kind=Named(_OUTPUT, OutputMapping, 'name', 'a mapping of names to outputs'),
        help='What users are shown of the outputs of the template.',
    ),
    file=FILE_KIND,
)  # fmt: skip
