"""Sample values for the store: one of each class, with all fields set."""

from kiln.clusters.models import (
    Cause,
    Cluster,
    DriverPin,
    Event,
    Holding,
    Node,
    NodeState,
    Operation,
    OperationKind,
    Step,
)
from kiln.clusters.spec import (
    ClusterSpec,
    MachineSpec,
    NodeGroupSpec,
    Place,
    Portion,
    Shape,
    Strategy,
    Zones,
)
from kiln.models import AmphoraType

CAUSE = Cause(
    code='quota_exceeded',
    message='Cannot build node web-w-7f: the quota is used up.',
    hint='Delete some instances.',
    because=Cause(code='nova', message='Quota exceeded for cores: \u00fc\U0001f525\0'),
)

#: Two flavors, three zones, and a backend for each group.
MIXED = (
    NodeGroupSpec(
        name='control',
        role='control',
        shape=Shape(count=3, zones=Zones(names=('az1', 'az2', 'az3'))),
        machine=MachineSpec(compute_driver='nova', server_type=AmphoraType.VM, keys=()),
    ),
    NodeGroupSpec(
        name='work',
        shape=Shape(
            count=15,
            flavors={'flavor_x': 10, 'flavor_y': 5},
            placements={Place('flavor_x', 'az1'): 10, Place('flavor_y', 'az2'): 5},
        ),
        machine=MachineSpec(
            compute_driver='metal',
            server_type=AmphoraType.BARE_METAL,
            parameters={'labels': {'a': [1, 2.5, None, True]}},
        ),
        strategy=Strategy(max_surge=Portion(25, percent=True)),
        max_count=100,
    ),
)
PIN = DriverPin(name='nodes_v1', version='1.2.0', origin='package kiln-compute', digest='sha:1')


def spec(name='web', **more):
    return ClusterSpec(name=name, groups=MIXED, **more)


def cluster(name='web', **more):
    values = {'id': f'c-{name}', 'name': name, 'spec': spec(name), 'generation': 1, 'pin': PIN}
    return Cluster(**values | more)


def operation(op_id='op-1', cluster_id='c-web', kind=OperationKind.CREATE, **more):
    return Operation(id=op_id, cluster_id=cluster_id, kind=kind, **more)


def node(node_id='n-1', cluster_id='c-web', **more):
    values = {
        'group': 'work', 'name': f'web-{node_id}', 'place': Place('flavor_x', 'az1'),
        'backend': 'nova',
    }  # fmt: skip
    return Node(id=node_id, cluster_id=cluster_id, **values | more)


def full_node():
    return node(
        state=NodeState.UNHEALTHY, made_with='sha:2', attempt=3, compute_id='server-1',
        address='10.0.0.1', addresses=('10.0.0.1', 'fd00::1'), found_zone='az1',
        doomed='asked for', cause=CAUSE, created_at=1.25, since=2.5,
    )  # fmt: skip


def step(step_id='s-1', operation_id='op-1', cluster_id='c-web', **more):
    values = {'kind': 'build', 'node_id': 'n-1', 'token': f'key-{step_id}', 'started_at': 1.5}
    return Step(id=step_id, operation_id=operation_id, cluster_id=cluster_id, **values | more)


def event(message='built', cluster_id='c-web', **more):
    return Event(cluster_id=cluster_id, kind='node_built', message=message, **more)


def holding(holding_id='port-1', cluster_id='c-web', **more):
    values = {'backend': 'nova', 'kind': 'port', 'node_id': 'n-1', 'seen_at': 3.0}
    values['node_name'] = 'web-1'
    return Holding(cluster_id=cluster_id, id=holding_id, **values | more)
