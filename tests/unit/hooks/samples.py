"""Hooks, operations and clusters for tests."""

import time

from kiln.clusters.models import Cluster, DriverPin, Node, Operation, OperationKind
from kiln.clusters.spec import ClusterSpec, MachineSpec, NodeGroupSpec, Place, Shape
from kiln.hooks.hook import Executable, Hook
from kiln.hooks.payload import Occasion

PIN = DriverPin(name='swarm_v1', version='1.2.0', origin='the tests', digest='d')
NOW = 1_700_000_000.0

SPEC = ClusterSpec(
    name='web',
    groups=(
        NodeGroupSpec(
            name='work', shape=Shape(count=2), machine=MachineSpec(parameters={'psk': 'hunter2'})
        ),
    ),
)
CLUSTER = Cluster(id='c1', name='web', spec=SPEC, generation=1, pin=PIN)
NODE = Node(
    id='n1', cluster_id='c1', group='work', name='web-work-a1', place=Place('m1', 'az1'),
    backend='noop', compute_id='s1', address='10.0.0.5',
    addresses=('10.0.0.5', 'fd00::5'),
)  # fmt: skip


def hook(name, point, **more):
    return Hook(name=name, point=point, target=Executable((f'/{name}',)), **more)


def operation(kind=OperationKind.CREATE, **more):
    values = {'id': 'op1', 'cluster_id': 'c1', 'kind': kind, 'deadline_at': NOW + 3600}
    return Operation(**values | more)


def occasion(node=None):
    return Occasion(site='kiln', cluster=CLUSTER, operation=operation(), node=node)


def wait_until(so, seconds=120.0):
    """Wait for a condition that another thread or process fulfils."""
    end = time.monotonic() + seconds
    while not so():
        if time.monotonic() > end:
            raise AssertionError('the condition was not fulfilled in time')
        time.sleep(0.005)
