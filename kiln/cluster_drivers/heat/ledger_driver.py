"""Base of drivers on Heat that say themselves which nodes a stack has: those of a ledger."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from kiln.cluster_drivers.heat.base import HeatDriver
from kiln.cluster_drivers.heat.cluster_stack import StackDefinition
from kiln.cluster_drivers.heat.ledger import Ledger, LedgerNode, misplaced
from kiln.cluster_drivers.heat.state import StackState
from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.templates.declarations import group_path, secret_of
from kiln.cluster_drivers.values import Context, Existing
from kiln.clusters.exceptions import ClusterDriverError, MissingCapability, Problem
from kiln.clusters.models import Cluster
from kiln.clusters.spec import MachineSpec, NodeGroupSpec

#: Heat's default limit of resources in a stack, nested ones among them.
MOST_RESOURCES = 1000
USER_DATA = 'user_data'
_PARAMETER = Parameter(
    name=USER_DATA, secret=True, help='The secret with the user data of each machine.'
)
#: What Heat needs to know of each machine.
_NEEDED = ('image', 'flavor', 'networks')


class LedgerDefinition(StackDefinition, abc.ABC):
    """What makes stacks whose nodes are those of a ledger."""

    @abc.abstractmethod
    def resources_of(self, machine: MachineSpec) -> int:
        """Return the resources of which a node of the stack consists."""

    def machine_problems(self, machine: MachineSpec) -> Iterator[tuple[str, str]]:
        """Yield what else is wrong with the machines of a group: a field, and why."""
        for name in _NEEDED:
            if not getattr(machine, name):
                yield name, f'has no {name}'

    # ---- what a stack is made from -----------------------------------------------------

    def ledger(self, cluster: Cluster) -> Ledger:
        """Return the ledger of a cluster, as it was planned."""
        return Ledger.read(StackState.read(cluster.driver_state).nodes)

    def nodes(
        self, context: Context, cluster: Cluster
    ) -> Sequence[tuple[LedgerNode, MachineSpec]]:
        """Return the nodes of a cluster, each with the machine of its group."""
        machines = {
            group.name: context.effective(cluster, group.name).machine
            for group in cluster.spec.groups
        }
        ledger = self.ledger(cluster)
        return [(node, machines[node.group]) for node in ledger.nodes if node.group in machines]

    def user_data(self, context: Context, cluster: Cluster) -> Mapping[str, tuple[str, str]]:
        """Return the name of the secret with the user data, and the secret; empty without one."""
        name = cluster.spec.machine.parameters.get(USER_DATA)
        return {} if name is None else {USER_DATA: (name, secret_of(context, USER_DATA, name))}

    # ---- checks ------------------------------------------------------------------------

    def value_problems(self, context: Context, cluster: Cluster) -> Iterator[Problem]:
        """Yield the problems in what a cluster gives to the stack."""
        yield from self._of_parameters(context, cluster)
        resources = 0
        for group in cluster.spec.groups:
            machine = context.effective(cluster, group.name).machine
            yield from self._of_group(cluster, group, machine)
            resources += group.shape.count * self.resources_of(machine)
        if resources > MOST_RESOURCES:
            message = f'the stack would have {resources} resources; Heat takes {MOST_RESOURCES}'
            yield Problem(message=message, path='nodegroups')

    def _of_group(
        self, cluster: Cluster, group: NodeGroupSpec, machine: MachineSpec
    ) -> Iterator[Problem]:
        where = group_path(cluster, group.name)
        for name, wrong in self.machine_problems(machine):
            is_said = name == 'flavor' and (group.shape.flavors or group.shape.placements)
            if not is_said:
                yield Problem(message=f'group {group.name} {wrong}', path=f'{where}.{name}')
        if wrong := misplaced(group):
            yield Problem(message=wrong, path=f'{where}.zones')

    def _of_parameters(self, context: Context, cluster: Cluster) -> Iterator[Problem]:
        for name, value in cluster.spec.machine.parameters.items():
            wrong = _PARAMETER.wrong(value) if value is not None else ''
            if name != USER_DATA:
                wrong = f'the driver has no such parameter; it has {USER_DATA}'
            elif not wrong and value is not None:
                try:
                    secret_of(context, name, value)
                except ClusterDriverError as exc:
                    wrong = str(exc)
            if wrong:
                yield Problem(message=wrong, path=f'parameters.{name}')
        for group in cluster.spec.groups:
            where = group_path(cluster, group.name)
            for name in group.machine.parameters:
                message = f'{name} is not a parameter of groups'
                yield Problem(message=message, path=f'{where}.parameters.{name}')


class LedgerDriver(HeatDriver):
    """Builds each cluster as a stack whose nodes are those of a ledger: any node can go."""

    #: True if the groups of a cluster share one series of numbers.
    one_series: ClassVar[bool] = False

    def planned(
        self, context: Context, cluster: Cluster, remove: Sequence[str] = ()
    ) -> StackState:
        """Return the state with the nodes that the cluster is to have."""
        former = StackState.read(cluster.driver_state)
        ledger = Ledger.read(former.nodes).changed(
            cluster.spec, cluster.generation, remove, one_series=self.one_series
        )
        return dataclasses.replace(former, nodes=ledger.write())

    def find_existing(self, context: Context, cluster: Cluster, reference: str) -> Existing:
        """Refuse: the nodes of a ledger have names that no other stack has."""
        raise MissingCapability(
            f'Cluster driver {self.name} would replace all nodes of a stack that it has not made.',
            'Name a driver with the template of the stack, or one of nodes.',
        )
