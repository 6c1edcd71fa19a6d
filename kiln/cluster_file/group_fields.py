"""Schema of node groups in a cluster file."""

from __future__ import annotations

from kiln.cluster_file.shape import (
    COUNT_ELSEWHERE,
    Placements,
    ZonesKind,
    settle_shape,
    shorten_shape,
)
from kiln.clusters.spec import (
    MOST_NODES,
    Fallback,
    Health,
    NodeGroupSpec,
    Strategy,
    VictimRule,
)
from kiln.models import AmphoraType
from kiln.yaml_schema.container_checks import Anything, Counts, ListOf
from kiln.yaml_schema.mapping_checks import Field, Found, Record
from kiln.yaml_schema.value_checks import Choice, Duration, Name, Share, Text, Whole

DAY_S = 86_400
_NAMES = 'a list of names such as [a, b]'
#: A node name is cluster (32), group and a suffix; a host name has at most 63 characters.
_GROUP_NAME = Name(24)

#: Machine settings, allowed in a group, a cluster or a template.
MACHINE = (
    Field(
        name='image', into='machine.image', kind=Text('the name or id of an image'),
        help='Name or id of the image that nodes boot from.',
        also=('image_id', 'image_name'),
    ),
    Field(
        name='flavor', into='machine.flavor', kind=Text('the name or id of a flavor'),
        help='Name or id of the flavor (size) of the nodes.',
        also=('flavor_id', 'size', 'instance_type', 'machine_type', 'vm_size'),
    ),
    Field(
        name='keys', into='machine.keys',
        kind=ListOf(Text('a key', longest=16_384), 'a list of keys such as [mine, yours]'),
        help='Keys for logging in to the nodes; [] means no keys, overriding a wider scope.',
        also=('key', 'ssh_keys', 'key_name', 'keypair'),
    ),
    Field(
        name='networks', into='machine.networks', kind=ListOf(Text('a network'), _NAMES),
        help='Names or ids of the networks; each node gets a port in each, in this order.',
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
        help='Kind of machine; the compute driver must be able to build it.',
        also=('type', 'amphora_type'),
    ),
    Field(
        name='compute_driver', into='machine.compute_driver',
        kind=Text('the name of a compute driver, such as nova'),
        help='The compute driver that builds the nodes; each group can have its own.',
        also=('backend', 'provider', 'cloud'),
    ),
    Field(
        name='parameters', into='machine.parameters', kind=Anything(),
        help='Values for the templates of the cluster driver; merged key by key, a narrower '
        'scope has precedence.',
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
            'max_surge and max_unavailable are both 0, so no node can be replaced; '
            'write 1 for one of them',
        )


STRATEGY = Record(
    Strategy,
    'strategy',
    Field(
        name='max_surge', kind=Share(MOST_NODES),
        help='Nodes allowed beyond the count during a replacement; needs quota.',
    ),
    Field(
        name='max_unavailable', kind=Share(MOST_NODES),
        help='Nodes allowed to be missing during a replacement; the cluster has less capacity.',
    ),
    Field(
        name='batch', kind=Whole(1, MOST_NODES),
        help='Maximum of nodes in progress at once; if omitted, limited by the backend only.',
    ),
    Field(
        name='drain_timeout', into='drain_timeout_s', kind=Duration(1, 7 * DAY_S),
        help='Time limit for moving work away from a node that goes; then it goes with its work. '
        'If omitted, the deadline of the operation.',
    ),
    settle=_settle_strategy,
)  # fmt: skip

FALLBACK = Record(
    Fallback,
    'fallback',
    Field(
        name='flavors', kind=ListOf(Text('a flavor'), 'a list of flavors such as [x, y]'),
        help='Flavors to try, in this order, when capacity or quota for a node is missing.',
    ),
    Field(
        name='zones', kind=ListOf(Text('a zone'), 'a list of zones such as [az2, az3]'),
        help='Zones to try, in this order, when capacity or quota for a node is missing.',
    ),
)  # fmt: skip

HEALTH = Record(
    Health,
    'health',
    Field(
        name='startup_timeout', into='startup_timeout_s', kind=Duration(1, 7 * DAY_S),
        help='Time limit for a new node to become ready; then the node is replaced.',
    ),
    Field(
        name='unhealthy_after', into='unhealthy_after_s', kind=Duration(1, 7 * DAY_S),
        help='Time for which a node can be unhealthy before it is replaced.',
    ),
    Field(
        name='max_unhealthy', kind=Share(MOST_NODES),
        help='Safety limit: if more nodes are unhealthy, no node is replaced.',
    ),
    Field(
        name='max_in_flight', kind=Whole(1, MOST_NODES),
        help='Maximum of unhealthy nodes that are replaced at once.',
    ),
)  # fmt: skip

GROUP = Record(
    NodeGroupSpec,
    'an entry of nodegroups',
    Field(
        name='name', kind=_GROUP_NAME, required=True,
        help='The name of the group; node names begin with the names of cluster and group.',
        also=('group', 'nodegroup', 'id'),
    ),
    Field(
        name='role', kind=_GROUP_NAME,
        help='Role of the nodes: control, worker, or a role defined by the cluster driver.',
    ),
    Field(
        name='count', into='shape.count', kind=Whole(0, MOST_NODES),
        help='Number of nodes; can be omitted if flavors, zones or placements define it.',
        also=COUNT_ELSEWHERE,
    ),
    Field(
        name='flavors', into='shape.flavors',
        kind=Counts(MOST_NODES, 'a mapping of flavors to counts such as {x: 10, y: 5}'),
        help='Number of nodes of each flavor; the sum is the count.',
    ),
    Field(
        name='zones', into='shape.zones', kind=ZonesKind(),
        help='Zones of the nodes: spread distributes evenly over all zones, a list evenly over '
        'its zones, a mapping as counted; any leaves the choice to the backend.',
        also=('zone', 'availability_zones', 'availability_zone', 'azs', 'az'),
    ),
    Field(
        name='placements', into='shape.placements', kind=Placements(),
        help='Number of nodes by flavor and zone; replaces flavors and zones.',
        also=('placement', 'places'),
    ),
    Field(
        name='min_count', kind=Whole(0, MOST_NODES),
        help='Minimum number of nodes when scaling.', also=('min', 'min_size'),
    ),
    Field(
        name='max_count', kind=Whole(0, MOST_NODES),
        help='Maximum number of nodes when scaling; if omitted, unlimited.',
        also=('max', 'max_size'),
    ),
    *MACHINE,
    Field(
        name='strategy', kind=STRATEGY,
        help='How nodes are replaced, rebooted and rebuilt while the cluster is in use.',
    ),
    Field(
        name='fallback', kind=FALLBACK,
        help='Alternatives when capacity or quota for a node is missing.',
    ),
    Field(
        name='health', kind=HEALTH,
        help='When unhealthy nodes are replaced, and when too many are unhealthy for that.',
        also=('health_check',),
    ),
    Field(
        name='deletion',
        kind=ListOf(
            Choice(VictimRule), f'a list of {", ".join(VictimRule)}', least=1,
        ),
        help='Which nodes are removed first when the group shrinks.',
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
