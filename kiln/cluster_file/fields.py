"""What may be written of a cluster or a template: every key, once."""

from __future__ import annotations

from kiln.cluster_file.containers import ListOf
from kiln.cluster_file.group_fields import DAY_S, FALLBACK, GROUP, HEALTH, MACHINE, STRATEGY
from kiln.cluster_file.kinds import Duration, Name, Text
from kiln.cluster_file.record import Field, Found, Record
from kiln.cluster_file.shape import Placements
from kiln.cluster_file.tree import Node, shown
from kiln.cluster_spec import ClusterSpec, ClusterTemplate

#: With that of a group and a suffix it makes the name of a node, which is a host's.
_CLUSTER_NAME = Name(32)
_TEMPLATE_NAME = Text(
    'a name of letters, digits, dots, dashes and underscores',
    longest=63,
    pattern='[A-Za-z0-9][A-Za-z0-9._-]*',
)


def _settle_groups(cluster: Found) -> None:
    groups = cluster.at('nodegroups').value
    seen: dict[str, Node] = {}
    for group in groups if isinstance(groups, tuple) else ():
        if 'name' not in group.entries:
            continue
        name = group.entries['name'].value
        # One that is merged from an anchor is written elsewhere.
        place = name if name.line >= group.line else group
        first = seen.setdefault(name.text, place)
        if name.text and first is not place:
            cluster.mistakes.add(
                place,
                f'group {shown(name.text)} is there already, in line {first.line}; write '
                f'another name',
            )


def _settle_cluster(cluster: Found) -> None:
    _settle_groups(cluster)
    if not cluster.given('nodegroups') and not cluster.given('template'):
        cluster.mistakes.add(
            cluster.node, 'the cluster has no nodes; write nodegroups, or a template that has them'
        )


_COMMON = (
    Field(
        name='coe', kind=Text('what the cluster runs, such as swarm'),
        help='What the cluster runs, such as swarm; it narrows the choice of drivers.',
        also=('orchestrator',),
    ),
    Field(
        name='driver',
        kind=Text(
            'a cluster driver as NAME, NAME==VERSION or NAME:OS',
            pattern=r'[A-Za-z0-9][A-Za-z0-9._-]*(==[0-9A-Za-z.*+-]+|:[A-Za-z0-9._-]+)?',
        ),
        help='The cluster driver, as NAME, NAME==1.2.* or NAME:OS; left out, kiln finds the one '
        'that fits.',
        also=('cluster_driver',),
    ),
    *MACHINE,
)  # fmt: skip

_GROUPS = Field(
    name='nodegroups',
    into='groups',
    kind=ListOf(GROUP, 'a list of groups, each with name and count', least=1, unique=False),
    help='The groups of nodes; a group here stands in the place of the one of its name in the '
    'template.',
    also=('groups', 'node_groups', 'nodes', 'node_pools', 'pools'),
)

CLUSTER = Record(
    ClusterSpec,
    'a cluster',
    Field(
        name='cluster', into='name', kind=_CLUSTER_NAME, required=True,
        help='The name of the cluster, by which kiln knows it again.',
        also=('name', 'cluster_name'),
    ),
    Field(
        name='template', kind=_TEMPLATE_NAME,
        help='The template that fills in what this document leaves open.',
        also=('cluster_template',),
    ),
    *_COMMON,
    Field(
        name='create_timeout', into='create_timeout_s', kind=Duration(1, 30 * DAY_S),
        help='Time the cluster has to be complete; past it the creation fails, and says why.',
        also=('timeout', 'cluster_create_timeout'),
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
        help='The name of the template, by which clusters ask for it.', also=('name',),
    ),
    *_COMMON,
    _GROUPS,
    settle=_settle_groups,
)  # fmt: skip

#: Each mapping that may be written, the widest first; for the reference.
RECORDS = (CLUSTER, TEMPLATE, GROUP, STRATEGY, FALLBACK, HEALTH, Placements.entry)
