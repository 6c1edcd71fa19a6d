"""What may be written of a group of nodes: every key, once."""

from __future__ import annotations

from kiln.cluster_file.containers import Anything, Counts, ListOf
from kiln.cluster_file.kinds import Choice, Duration, Name, Share, Text, Whole
from kiln.cluster_file.record import Field, Found, Record
from kiln.cluster_file.shape import (
    COUNT_ELSEWHERE,
    MOST_NODES,
    Placements,
    ZonesKind,
    settle_shape,
    shorten_shape,
)
from kiln.cluster_spec import (
    Fallback,
    Health,
    NodeGroupSpec,
    Strategy,
    VictimRule,
)
from kiln.models import AmphoraType

DAY_S = 86_400
_NAMES = 'a list of names such as [a, b]'
#: Cluster (32), group and a suffix make the name of a node, which is a host's: 63 letters.
_GROUP_NAME = Name(24)

#: How nodes are made: of a group, a cluster or a template.
MACHINE = (
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
        name='startup_timeout', into='startup_timeout_s', kind=Duration(1, 7 * DAY_S),
        help='Time a new node has to become ready; past it the node is given up and replaced.',
    ),
    Field(
        name='unhealthy_after', into='unhealthy_after_s', kind=Duration(1, 7 * DAY_S),
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
        also=COUNT_ELSEWHERE,
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
    *MACHINE,
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
