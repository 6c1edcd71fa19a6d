"""The driver class: nodes by a ledger, and a group that is told its members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.heat.base import HeatDriver
from kiln.cluster_drivers.heat.definition import TemplateDefinition
from kiln.cluster_drivers.heat.ledger import difference, ledger_of
from kiln.cluster_drivers.heat.ledger_definition import LedgerDefinition
from kiln.cluster_drivers.heat.mappings import Definition
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster
from kiln.clusters.spec import MachineSpec

# Relative imports, so that a copy of the folder works anywhere.
from . import version as manifest
from .members import params_of

_TEMPLATES = Path(__file__).parent / 'templates'


class GroupDefinition(LedgerDefinition):
    """What makes the stacks: a template with one group, the same for all clusters."""

    #: A group has one series of indices.
    one_series = True

    def __init__(self) -> None:
        self._template = TemplateDefinition(_TEMPLATES)

    def load(self, *, overrides: Path | None = None) -> None:
        self._template.load(overrides=overrides)

    def resources_of(self, machine: MachineSpec) -> int:
        # The nested stack, the port and the server.
        return 3

    def machine_problems(self, machine: MachineSpec) -> Iterator[tuple[str, str]]:
        yield from super().machine_problems(machine)
        if len(machine.networks or ()) > 1:
            yield 'networks', 'has more than one network; the template makes one port'

    def extract_definition(self, context: Context, cluster: Cluster) -> Definition:
        """Return the template, with the nodes of the ledger of a cluster as parameters."""
        bundle = self._template.bundle
        last = max(ledger_of(cluster).last.values(), default=0)
        user_data = self.user_data(context, cluster)
        shown = {'cluster': cluster.name, **params_of(self.nodes(context, cluster), last)}
        secrets = {name: secret for name, (_, secret) in user_data.items()}
        return Definition(
            template=bundle.template,
            files=bundle.files,
            params={**shown, **secrets},
            shown={**shown, **{name: of for name, (of, _) in user_data.items()}},
            secrets=tuple(secrets.values()),
        )

    def get_outputs(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the address of each node by its name."""
        addresses = outputs.get('addresses') or {}
        return {'nodes': {name: addresses.get(index) for index, name in members(outputs).items()}}

    def missed(self, cluster: Cluster, outputs: Mapping[str, Any]) -> str:
        """Return which members the group has in place of those of the ledger."""
        expected = [node.name for node in ledger_of(cluster).nodes]
        return difference(members(outputs).values(), expected)


class Driver(HeatDriver):
    """Builds clusters of servers as stacks of Heat with one resource group.

    The template is the same for all clusters, and can be replaced by an operator's own. Flavors
    and zones are maps by index. Any node can go, from the middle too.
    """

    name = manifest.driver
    version = manifest.version
    provides = manifest.provides  # pyright: ignore  # a property in the contract

    def get_template_definition(self) -> GroupDefinition:
        return GroupDefinition()


def members(outputs: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the name of each member of the group by its index."""
    found = outputs.get('names')
    return found if isinstance(found, Mapping) else {}
