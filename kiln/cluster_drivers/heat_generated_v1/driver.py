"""The driver class: nodes by a ledger, and a template generated from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.heat.base import HeatDriver
from kiln.cluster_drivers.heat.mappings import Definition
from kiln.cluster_drivers.heat.state import StackState
from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.templates.declarations import group_path, secret_of
from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError, Problem
from kiln.clusters.models import Cluster

# Relative imports, so that a copy of the folder works anywhere.
from . import version as manifest
from .generator import USER_DATA, template_of
from .ledger import Ledger, misplaced

#: Heat's default limit of resources in a stack, nested ones among them.
MOST_RESOURCES = 1000
_PARAMETER = Parameter(
    name=USER_DATA, secret=True, help='The secret with the user data of each machine.'
)
#: What Heat needs to know of each machine.
_NEEDED = ('image', 'flavor', 'networks')


class GeneratedDefinition:
    """What makes the stacks: the template is made from the groups of each cluster."""

    def load(self, *, overrides: Path | None = None) -> None:
        """Return: there are no files."""

    def extract_definition(self, context: Context, cluster: Cluster) -> Definition:
        """Return the template of a cluster with the nodes of its ledger."""
        ledger = Ledger.read(StackState.read(cluster.driver_state).nodes)
        machines = {
            group.name: context.effective(cluster, group.name).machine
            for group in cluster.spec.groups
        }
        nodes = [(node, machines[node.group]) for node in ledger.nodes if node.group in machines]
        name = cluster.spec.machine.parameters.get(USER_DATA)
        secrets = {} if name is None else {USER_DATA: secret_of(context, USER_DATA, name)}
        return Definition(
            template=template_of(cluster.name, nodes),
            files={},
            params=secrets,
            shown={} if name is None else {USER_DATA: name},
            secrets=tuple(secrets.values()),
        )

    def get_outputs(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the address of each node by its name."""
        return {'nodes': outputs.get('nodes') or {}}

    def value_problems(self, context: Context, cluster: Cluster) -> Iterator[Problem]:
        """Yield the problems in what a cluster gives to the generator."""
        yield from self._of_parameters(context, cluster)
        resources = 0
        for group in cluster.spec.groups:
            where = group_path(cluster, group.name)
            machine = context.effective(cluster, group.name).machine
            for name in _NEEDED:
                is_said = name == 'flavor' and (group.shape.flavors or group.shape.placements)
                if not getattr(machine, name) and not is_said:
                    message = f'group {group.name} has no {name}'
                    yield Problem(message=message, path=f'{where}.{name}')
            if wrong := misplaced(group):
                yield Problem(message=wrong, path=f'{where}.zones')
            resources += group.shape.count * (1 + len(machine.networks or ()))
        if resources > MOST_RESOURCES:
            message = f'the stack would have {resources} resources; Heat takes {MOST_RESOURCES}'
            yield Problem(message=message, path='nodegroups')

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


class Driver(HeatDriver):
    """Builds clusters of servers as stacks of Heat, with a named resource for each node.

    Any node can go, from the middle too, and Heat's preview names the nodes that a change
    would touch. What a node consists of follows from the cluster file alone.
    """

    name = manifest.driver
    version = manifest.version
    provides = manifest.provides  # pyright: ignore  # a property in the contract

    def get_template_definition(self) -> GeneratedDefinition:
        return GeneratedDefinition()

    def planned(
        self, context: Context, cluster: Cluster, remove: Sequence[str] = ()
    ) -> StackState:
        """Return the state with the nodes that the cluster is to have."""
        former = StackState.read(cluster.driver_state)
        ledger = Ledger.read(former.nodes).changed(cluster.spec, cluster.generation, remove)
        return dataclasses.replace(former, nodes=ledger.write())
