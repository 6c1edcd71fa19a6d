"""Sample arguments for cluster drivers: clusters, nodes, parameter values; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.discovery.manifest import from_class
from kiln.cluster_drivers.parameters import Parameter, ParameterType
from kiln.cluster_drivers.records import WILDCARD
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster, DriverPin, Node, NodeState
from kiln.clusters.spec import ClusterSpec, MachineSpec, NodeGroupSpec, Place, Shape

#: The group that clusters of the kit consist of.
GROUP = 'work'
#: The value of every secret of the kit; wherever it is found, a secret has leaked.
SECRET = 'kit-secret-5f0c7a'  # noqa: S105  # not a real secret
JOIN_KEY = b'k' * 32


class KitSecrets:
    """A secret store that returns the same secret for every name."""

    def get(self, name: str) -> str:
        return SECRET


def context(*nodes: Node) -> Context:
    """Return the context of a call."""
    return Context(site='kit', secrets=KitSecrets(), nodes=nodes, join_key=lambda: JOIN_KEY)


def group(count: int, role: str = 'worker') -> NodeGroupSpec:
    """Return the group of a cluster."""
    return NodeGroupSpec(name=GROUP, shape=Shape(count=count), role=role)


def cluster(
    driver_class: type[ClusterDriver],
    machine: MachineSpec,
    count: int,
    *,
    id_: str = 'kit-1',
    role: str = 'worker',
) -> Cluster:
    """Return a sample cluster that uses a driver."""
    pin = DriverPin(
        name=driver_class.name, version=driver_class.version, origin='the kit', digest='kit'
    )
    provided = from_class(driver_class).provides or ()
    coe = next((one.coe for one in provided if one.coe != WILDCARD), None)
    spec = ClusterSpec(name='kit', coe=coe, groups=(group(count, role),), machine=machine)
    return Cluster(id=id_, name='kit', spec=spec, generation=1, pin=pin)


def node(cluster_id: str, number: int = 1) -> Node:
    """Return a node whose machine runs."""
    return Node(
        id=f'n-{number}', cluster_id=cluster_id, group=GROUP, name=f'kit-work-{number}',
        place=Place(flavor='small', zone='az1'), backend='noop', state=NodeState.READY,
        compute_id=f'machine-{number}', address=f'192.0.2.{number}', created_at=float(number),
    )  # fmt: skip


def merged(machine: MachineSpec, other: MachineSpec) -> MachineSpec:
    """Return a machine specification; set fields of ``other`` take precedence."""
    given = {
        field.name: getattr(other, field.name)
        for field in dataclasses.fields(MachineSpec)
        if getattr(other, field.name)
    }
    parameters = {**machine.parameters, **other.parameters}
    return dataclasses.replace(machine, **{**given, 'parameters': parameters})


def filled(driver: ClusterDriver, machine: MachineSpec) -> MachineSpec:
    """Return a machine specification with a value for each required parameter."""
    if not isinstance(driver, NodeClusterDriver):
        return machine
    needed = {
        name: fitting(one)
        for name, one in driver.template_definition.parameters.items()
        if one.required and name not in machine.parameters
    }
    return dataclasses.replace(machine, parameters={**needed, **machine.parameters})


def secrets_of(driver: ClusterDriver) -> dict[str, str]:
    """Return a value for each parameter that is a secret: the name of one."""
    if not isinstance(driver, NodeClusterDriver):
        return {}
    return {
        name: 'kit' for name, one in driver.template_definition.parameters.items() if one.secret
    }


_SAMPLES: Mapping[ParameterType, Any] = {
    ParameterType.STRING: 'kit',
    ParameterType.BOOLEAN: True,
    ParameterType.LIST: (),
    ParameterType.MAP: {},
}


def fitting(one: Parameter) -> Any:
    """Return a value that fits the declaration of a parameter."""
    if one.choices:
        return one.choices[0]
    if one.type in _SAMPLES:
        return _SAMPLES[one.type]
    least = 1 if one.minimum is None else one.minimum
    most = least if one.maximum is None else one.maximum
    number = min(least, most)
    return int(number) if one.type is ParameterType.INTEGER else number
