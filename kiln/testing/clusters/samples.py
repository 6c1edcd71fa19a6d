"""Sample arguments for cluster drivers: clusters, nodes, parameter values; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.discovery.manifest import from_class
from kiln.cluster_drivers.parameters import Parameter, ParameterType
from kiln.cluster_drivers.records import WILDCARD
from kiln.cluster_drivers.values import Context, PlannedChange, PlannedGroup
from kiln.clusters.models import Cluster, DriverPin, Node, NodeState, OperationKind
from kiln.clusters.spec import ClusterSpec, MachineSpec, NodeGroupSpec, Place, Shape

#: More than a cluster of the kit has nodes.
_MOST = 500
#: The group that clusters of the kit consist of.
GROUP = 'work'
#: The value of every secret of the kit; wherever it is found, a secret has leaked.
SECRET = 'kit-secret-5f0c7a'  # noqa: S105  # not a real secret
JOIN_KEY = b'k' * 32
#: The nodes of each role of a cluster with more than one.
COUNTS: Mapping[str, int] = MappingProxyType({'control': 3, 'worker': 3})


class Secret:
    """A secret store that returns the same secret for every name."""

    def __init__(self, value: str = SECRET) -> None:
        self._value = value

    def get(self, name: str) -> str:
        # As a store of a site does, which looks for a file of that name.
        if not isinstance(name, str):
            raise TypeError(f'the name of a secret is a text, not {name!r}')
        return self._value


class ChangingSecret(Secret):
    """The same, of which operators can change the secret."""

    def change(self) -> None:
        """Put another secret in the place of each."""
        self._value += '-new'


def context(*nodes: Node, join_key: bytes = JOIN_KEY, **more: Any) -> Context:
    """Return the context of a call."""
    # A driver that needs credentials is right to refuse a cluster without any.
    given = {'site': 'kit', 'credentials': 'kit', 'secrets': Secret(), **more}
    return Context(nodes=nodes, join_key=lambda: join_key, **given)


def group(count: int, role: str = 'worker') -> NodeGroupSpec:
    """Return the group of a cluster."""
    return NodeGroupSpec(name=GROUP, shape=Shape(count=count), role=role)


def group_of(role: str) -> str:
    """Return the name of the group of a role."""
    return GROUP if role == 'worker' else role


def groups(counts: Mapping[str, int]) -> tuple[NodeGroupSpec, ...]:
    """Return a group for each role."""
    return tuple(
        NodeGroupSpec(name=group_of(role), shape=Shape(count=count), role=role)
        for role, count in counts.items()
    )


def with_roles(cluster: Cluster, counts: Mapping[str, int]) -> Cluster:
    """Return a cluster with a group for each role."""
    spec = dataclasses.replace(cluster.spec, groups=groups(counts))
    return dataclasses.replace(cluster, spec=spec)


def creation(cluster: Cluster) -> PlannedChange:
    """Return the plan that creates all nodes of a cluster."""
    added = {one.name: (Place(),) * one.shape.count for one in cluster.spec.groups}
    groups = tuple(PlannedGroup(name=name, added=places) for name, places in added.items())
    return PlannedChange(kind=OperationKind.CREATE, groups=groups)


def nodes_of(cluster: Cluster, *, first: int = 1) -> tuple[Node, ...]:
    """Return nodes whose machines run: as many as a cluster declares, oldest first.

    :param first: The number of the first; no two have an address in common.
    """
    groups = [one for one in cluster.spec.groups for _ in range(one.shape.count)]
    return tuple(
        dataclasses.replace(
            node(cluster.id, number), group=group.name, name=f'kit-{group.name}-{number}'
        )
        for number, group in enumerate(groups, first)
    )


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
        # Neither the id nor the last change tells the age.
        id=f'n-{_MOST - number}', since=float(_MOST - number), created_at=float(number),
        cluster_id=cluster_id, group=GROUP, name=f'kit-work-{number}',
        place=Place(flavor='small', zone='az1'), backend='noop', state=NodeState.READY,
        compute_id=f'machine-{number}', address=f'192.0.2.{number}',
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
        name: value(one)
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


def value(one: Parameter) -> Any:
    """Return a value that fits a parameter."""
    if one.choices:
        return one.choices[0]
    if one.type in _SAMPLES:
        return _SAMPLES[one.type]
    least = 1 if one.minimum is None else one.minimum
    most = least if one.maximum is None else one.maximum
    number = min(least, most)
    return int(number) if one.type is ParameterType.INTEGER else number
