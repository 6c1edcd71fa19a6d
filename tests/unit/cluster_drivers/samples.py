"""A cluster, its nodes and the context of a call, for tests of drivers."""

from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster, DriverPin, Node, NodeState
from kiln.clusters.spec import ClusterSpec, MachineSpec, NodeGroupSpec, Place, Shape

PIN = DriverPin(name='x_v1', version='1.0.0', origin='here', digest='0')


def group(name='work', *, count=3, role='worker', parameters=None, **machine):
    machine = MachineSpec(**machine, parameters=parameters or {})
    return NodeGroupSpec(name=name, shape=Shape(count=count), role=role, machine=machine)


def cluster(*groups, parameters=None, coe='nodes', **machine):
    spec = ClusterSpec(
        name='blue',
        coe=coe,
        groups=groups or (group(),),
        machine=MachineSpec(**machine, parameters=parameters or {}),
    )
    return Cluster(id='c-1', name='blue', spec=spec, generation=1, pin=PIN)


def node(number=1, group='work', **fields):
    given = {
        'name': f'blue-{group}-{number}',
        'place': Place(flavor='small', zone='az1'),
        'backend': 'noop',
        'state': NodeState.READY,
        'created_at': float(number),
    }
    return Node(id=f'n-{number}', cluster_id='c-1', group=group, **given | fields)


def context(**fields):
    return Context(**{'site': 'east', 'join_key': lambda: b'k' * 32} | fields)


class Secrets:
    """An in-memory store of secrets."""

    def __init__(self, **secrets):
        self._secrets = secrets

    def get(self, name):
        return self._secrets[name]
