"""Schema of clusters and templates in a cluster file."""

from __future__ import annotations

from typing import Any

from kiln.cluster_file.group_fields import DAY_S, FALLBACK, GROUP, HEALTH, MACHINE, STRATEGY
from kiln.cluster_file.shape import Placements
from kiln.clusters.spec import ClusterSpec, ClusterTemplate
from kiln.yaml_schema.container_checks import ListOf
from kiln.yaml_schema.mapping_checks import Field, Found, Record
from kiln.yaml_schema.nodes import Node, shown
from kiln.yaml_schema.value_checks import Duration, Name, Text

#: Node names, which are host names, consist of cluster name, group name and a suffix.
_CLUSTER_NAME = Name(32)
_TEMPLATE_NAME = Text(
    'a name of letters, digits, dots, dashes and underscores',
    longest=63,
    pattern='[A-Za-z0-9][A-Za-z0-9._-]*',
)

# Without a pattern: a message about a wrong name would quote it, and it can be the secret.
_SECRET_NAME = Text('the name of a secret of the site, never the secret itself', longest=128)


def _settle_groups(cluster: Found) -> None:
    groups = cluster.at('nodegroups').value
    seen: dict[str, Node] = {}
    for group in groups if isinstance(groups, tuple) else ():
        if 'name' not in group.entries:
            continue
        name = group.entries['name'].value
        # A name merged from an anchor is written elsewhere.
        place = name if name.line >= group.line else group
        first = seen.setdefault(name.text, place)
        if name.text and first is not place:
            cluster.mistakes.add(
                place,
                f'group {shown(name.text)} is already declared in line {first.line}; write '
                f'another name',
            )


def _settle_cluster(cluster: Found) -> None:
    _settle_groups(cluster)
    if not cluster.given('nodegroups') and not cluster.given('template'):
        cluster.mistakes.add(
            cluster.node,
            'the cluster has no nodes; write nodegroups, or a template with nodegroups',
        )


_COMMON = (
    Field(
        name='coe', kind=Text('an orchestration engine, such as swarm'),
        help='Container orchestration engine, such as swarm; narrows the choice of drivers.',
        also=('orchestrator',),
    ),
    Field(
        name='driver',
        kind=Text(
            'a cluster driver as NAME, NAME==VERSION or NAME:OS',
            pattern=r'[A-Za-z0-9][A-Za-z0-9._-]*(==[0-9A-Za-z.*+-]+|:[A-Za-z0-9._-]+)?',
        ),
        help='The cluster driver, as NAME, NAME==1.2.* or NAME:OS; if omitted, kiln chooses a '
        'matching driver.',
        also=('cluster_driver',),
    ),
    *MACHINE,
)  # fmt: skip

_GROUPS = Field(
    name='nodegroups',
    into='groups',
    kind=ListOf(GROUP, 'a list of groups, each with name and count', least=1, unique=False),
    help='The groups of nodes; a group replaces the group of the same name in the template.',
    also=('groups', 'node_groups', 'nodes', 'node_pools', 'pools'),
)

CLUSTER = Record(
    ClusterSpec,
    'a cluster',
    Field(
        name='cluster', into='name', kind=_CLUSTER_NAME, required=True,
        help='The name of the cluster, which identifies it.',
        also=('name', 'cluster_name'),
    ),
    Field(
        name='template', kind=_TEMPLATE_NAME,
        help='The template that provides values omitted here.',
        also=('cluster_template',),
    ),
    *_COMMON,
    Field(
        name='create_timeout', into='create_timeout_s', kind=Duration(1, 30 * DAY_S),
        help='Time limit for the creation; then it fails and reports the cause.',
        also=('timeout', 'cluster_create_timeout'),
    ),
    Field(
        name='credentials', kind=_SECRET_NAME,
        help='The name of the secret with the credentials that the cluster driver uses for an '
        'engine of its own; if omitted, those of the site.',
        also=('credential', 'cloud_credentials'),
    ),
    _GROUPS,
    settle=_settle_cluster,
    rules={'anyOf': [{'required': ['nodegroups']}, {'required': ['template']}]},
)  # fmt: skip

TEMPLATE = Record(
    ClusterTemplate,
    'a template',
    Field(
        name='template', into='name', kind=_TEMPLATE_NAME, required=True,
        help='The name of the template, to which clusters refer.', also=('name',),
    ),
    *_COMMON,
    _GROUPS,
    settle=_settle_groups,
)  # fmt: skip

#: All mappings of the file, outermost first; for the reference documentation.
RECORDS = (CLUSTER, TEMPLATE, GROUP, STRATEGY, FALLBACK, HEALTH, Placements.entry)


def json_schema() -> dict[str, Any]:
    """Return the schema of one document, in draft 2020-12.

    The schema accepts everything that kiln accepts. Mistakes that it cannot express, such
    as wrong sums and duplicate names, are found by ``reading.read``.
    """
    return {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': 'A cluster of kiln, or a template for clusters',
        'type': 'object',
        'if': {'required': ['template'], 'not': {'required': ['cluster']}},
        'then': TEMPLATE.schema(),
        'else': CLUSTER.schema(),
    }
