"""What may be written of a cluster: every key, once."""

from __future__ import annotations

from kiln.cluster_file.kinds import (
    Anything,
    Choice,
    Counts,
    Duration,
    ListOf,
    Name,
    Share,
    Text,
    Whole,
)
from kiln.cluster_file.record import Field, Found, Record
from kiln.cluster_file.shape import (
    MOST_NODES,
    Placements,
    ZonesKind,
    settle_shape,
    shorten_shape,
)
from kiln.cluster_spec import (
    ClusterSpec,
    ClusterTemplate,
    Fallback,
    Health,
    NodeGroupSpec,
    Strategy,
    VictimRule,
)
from kiln.models import AmphoraType

_DAY_S = 86_400
_NAMES = 'a list of names such as [a, b]'
#: Cluster, group and a suffix make the name of a node, which is a host's: 63 letters.
_CLUSTER_NAME = Name(32)
_GROUP_NAME = Name(24)
_TEMPLATE_NAME = Text(
    'a name of letters, digits, dots, dashes and underscores',
    longest=63,
    pattern='[A-Za-z0-9][A-Za-z0-9._-]*',
)

_MACHINE = (
    Field(
        name='image', into='machine.image', kind=Text('the name or id of an image'),
        help='Name or id of the image that nodes boot from.',
        also=('image_id', 'image_name'),
    ),
    Field(
        name='flavor', into='machine.flavor', kind=Text('the name or id of a flavor'),
        help='Name or id of the flavor, that is the size, of the nodes.',
        also=('flavor_id', 'size', 'instance_type', 'machine_type', 'vm_size'),
    ),
    Field(
        name='keys', into='machine.keys',
        kind=ListOf(Text('a key', longest=16_384), 'a list of keys such as [mine, yours]'),
        help='Keys for logging in to the nodes; [] is none, whatever a wider scope says.',
        also=('key', 'ssh_keys', 'key_name', 'keypair'),
    ),
    Field(
        name='networks', into='machine.networks', kind=ListOf(Text('a network'), _NAMES),
        help='Names or ids of the networks that each node has a port in, in this order.',
        also=('network_ids', 'network_id', 'nics'),
    ),
    Field(
        name='sec_groups', into='machine.sec_groups',
        kind=ListOf(Text('a security group'), _NAMES),
        help='Security groups of the ports of the nodes.',
        also=('security_groups', 'secgroups'),
    ),
    Field(
        name='server_type', into='machine.server_type', kind=Choice(AmphoraType),
        help='What kind of machine a node is; the compute driver must be able to build it.',
        also=('type', 'amphora_type'),
    ),
    Field(
        name='compute_driver', into='machine.compute_driver',
        kind=Text('the name of a compute driver, such as nova'),
        help='The compute driver that builds the nodes; each group may have its own.',
        also=('backend', 'provider', 'cloud'),
    ),
    Field(
        name='parameters', into='machine.parameters', kind=Anything(),
        help='Values for the templates of the cluster driver; the narrower scope wins key by key.',
        also=('params', 'labels', 'values'),
    ),
)  # fmt: skip


def _settle_strategy(strategy: Found) -> None:
    shares = []
    for name in ('max_surge', 'max_unavailable'):
        if strategy.given(name) and name not in strategy.values:
            return
        shares.append(strategy.values.get(name, STRATEGY.default(STRATEGY.fields[name])))
    if all(share.amount == 0 for share in shares):
        strategy.mistakes.add(
            strategy.node,
            'max_surge and max_unavailable are both 0, so no node could ever be replaced; '
            'write 1 for one of them',
        )


STRATEGY = Record(
    Strategy,
    'strategy',
    Field(
        name='max_surge', kind=Share(MOST_NODES),
        help='Nodes beyond the count that there may be while others are replaced; needs quota.',
    ),
    Field(
        name='max_unavailable', kind=Share(MOST_NODES),
        help='Nodes that may be missing while others are replaced; the cluster works with fewer.',
    ),
    Field(
        name='batch', kind=Whole(1, MOST_NODES),
        help='Nodes under way at once, at most; left out, as many as the backend takes.',
    ),
    settle=_settle_strategy,
)  # fmt: skip

FALLBACK = Record(
    Fallback,
    'fallback',
    Field(
        name='flavors', kind=ListOf(Text('a flavor'), 'a list of flavors such as [x, y]'),
        help='Flavors that are tried, in this order, where there is no room or quota for a node.',
    ),
    Field(
        name='zones', kind=ListOf(Text('a zone'), 'a list of zones such as [az2, az3]'),
        help='Zones that are tried, in this order, where there is no room or quota for a node.',
    ),
)  # fmt: skip

HEALTH = Record(
    Health,
    'health',
    Field(
        name='startup_timeout', into='startup_timeout_s', kind=Duration(1, 7 * _DAY_S),
        help='Time a new node has to become ready; past it the node is given up and replaced.',
    ),
    Field(
        name='unhealthy_after', into='unhealthy_after_s', kind=Duration(1, 7 * _DAY_S),
        help='Time a node may be unhealthy before it is replaced.',
    ),
    Field(
        name='max_unhealthy', kind=Share(MOST_NODES),
        help='The brake: with more nodes unhealthy than this, none is replaced.',
    ),
    Field(
        name='max_in_flight', kind=Whole(1, MOST_NODES),
        help='Unhealthy nodes that are replaced at once, at most.',
    ),
)  # fmt: skip

GROUP = Record(
    NodeGroupSpec,
    'an entry of nodegroups',
    Field(
        name='name', kind=_GROUP_NAME, required=True,
        help='The name of the group; the names of its nodes begin with the cluster and this.',
        also=('group', 'nodegroup', 'id'),
    ),
    Field(
        name='role', kind=_GROUP_NAME,
        help='What its nodes are for; the cluster driver knows control, worker and its own.',
    ),
    Field(
        name='count', into='shape.count', kind=Whole(0, MOST_NODES),
        help='How many nodes there are; left out where flavors, zones or placements say it.',
        also=('node_count', 'replicas', 'nodes', 'number', 'quantity'),
    ),
    Field(
        name='flavors', into='shape.flavors',
        kind=Counts(MOST_NODES, 'a mapping of flavors to counts such as {x: 10, y: 5}'),
        help='How many nodes of each flavor there are; the counts add up to count.',
    ),
    Field(
        name='zones', into='shape.zones', kind=ZonesKind(),
        help='Where nodes go: spread is evenly over all zones, a list evenly over those, '
        'counts as written, any where the backend likes.',
        also=('zone', 'availability_zones', 'availability_zone', 'azs', 'az'),
    ),
    Field(
        name='placements', into='shape.placements', kind=Placements(),
        help='How many nodes of which flavor in which zone, in place of flavors and zones.',
        also=('placement', 'places'),
    ),
    Field(
        name='min_count', kind=Whole(0, MOST_NODES),
        help='The fewest nodes the group may be scaled to.', also=('min', 'min_size'),
    ),
    Field(
        name='max_count', kind=Whole(0, MOST_NODES),
        help='The most nodes the group may be scaled to; left out, there is no bound.',
        also=('max', 'max_size'),
    ),
    *_MACHINE,
    Field(
        name='strategy', kind=STRATEGY,
        help='How nodes are replaced, rebooted and rebuilt while the cluster works.',
    ),
    Field(
        name='fallback', kind=FALLBACK,
        help='What is tried where there is no room or no quota for a node.',
    ),
    Field(
        name='health', kind=HEALTH,
        help='When a node is given up, and when too many are to be given up at all.',
        also=('health_check',),
    ),
    Field(
        name='deletion',
        kind=ListOf(
            Choice(VictimRule), f'a list of {", ".join(VictimRule)}', least=1,
        ),
        help='Which nodes go first when the group shrinks.',
        also=('deletion_policy', 'delete_policy'),
    ),
    settle=settle_shape,
    shorten=shorten_shape,
    rules={
        'anyOf': [
            *({'required': [name]} for name in ('count', 'flavors', 'placements')),
            {'required': ['zones'], 'properties': {'zones': {'type': 'object'}}},
        ]
    },
)  # fmt: skip


def _settle_groups(cluster: Found) -> None:
    groups = cluster.node.entries['nodegroups'].value if cluster.given('nodegroups') else None
    lines: dict[str, int] = {}
    for group in groups.value if groups and isinstance(groups.value, tuple) else ():
        name = group.entries.get('name')
        if name is None or not isinstance(name.value.value, str):
            continue
        if name.value.value in lines:
            cluster.mistakes.add(
                name.value,
                f'group {name.value.value!r} is there already, in line '
                f'{lines[name.value.value]}; give this one another name',
            )
        lines.setdefault(name.value.value, name.value.line)


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
    *_MACHINE,
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
        name='create_timeout', into='create_timeout_s', kind=Duration(1, 30 * _DAY_S),
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
