"""Base of definitions in Python of stacks whose nodes are those of a ledger."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from kiln.cluster_drivers.heat.cluster_stack import StackDefinition
from kiln.cluster_drivers.heat.ledger import Ledger, LedgerNode, ledger_of, misplaced
from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.templates.declarations import group_path, secret_of
from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError, Problem
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
    """What makes stacks whose nodes are those of a ledger: any node can go."""

    #: True if the groups of a cluster share one series of numbers.
    one_series: ClassVar[bool] = False

    @abc.abstractmethod
    def resources_of(self, machine: MachineSpec) -> int:
        """Return the resources of which a node of the stack consists."""

    def machine_problems(self, machine: MachineSpec) -> Iterator[tuple[str, str]]:
        """Yield what else is wrong with the machines of a group: a field, and why."""
        for name in _NEEDED:
            if not getattr(machine, name):
                yield name, f'has no {name}'

    # ---- what a stack is made from -----------------------------------------------------

    def planned(self, cluster: Cluster, remove: Sequence[str]) -> Ledger:
        """Return the ledger of the nodes that a cluster is to have."""
        return ledger_of(cluster).changed(
            cluster.spec, cluster.generation, remove, one_series=self.one_series
        )

    def nodes(
        self, context: Context, cluster: Cluster
    ) -> Sequence[tuple[LedgerNode, MachineSpec]]:
        """Return the nodes of a cluster, each with the machine of its group."""
        machines = {
            group.name: context.effective(cluster, group.name).machine
            for group in cluster.spec.groups
        }
        nodes = ledger_of(cluster).nodes
        return [(node, machines[node.group]) for node in nodes if node.group in machines]

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
