"""The driver class: nodes by a ledger, and a template generated from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kiln.cluster_drivers.heat.base import HeatDriver
from kiln.cluster_drivers.heat.ledger_definition import LedgerDefinition
from kiln.cluster_drivers.heat.mappings import Definition
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cluster
from kiln.clusters.spec import MachineSpec

# Relative imports, so that a copy of the folder works anywhere.
from . import version as manifest
from .generator import template_of


class GeneratedDefinition(LedgerDefinition):
    """What makes the stacks: the template is made from the groups of each cluster."""

    def load(self, *, overrides: Path | None = None) -> None:
        """Return: there are no files."""

    def resources_of(self, machine: MachineSpec) -> int:
        return 1 + len(machine.networks or ())

    def extract_definition(self, context: Context, cluster: Cluster) -> Definition:
        """Return the template of a cluster with the nodes of its ledger."""
        user_data = self.user_data(context, cluster)
        secrets = {name: secret for name, (_, secret) in user_data.items()}
        return Definition(
            template=template_of(cluster.name, self.nodes(context, cluster)),
            files={},
            params=secrets,
            shown={name: of for name, (of, _) in user_data.items()},
            secrets=tuple(secrets.values()),
        )

    def get_outputs(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the address of each node by its name."""
        return {'nodes': outputs.get('nodes') or {}}


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
