"""The command ``kiln driver contract``: what a driver must and can do, as text."""

from __future__ import annotations

import argparse
import pkgutil
import sys
from collections.abc import Mapping
from types import ModuleType

from kiln.cli.arguments import TEXT_FORMAT, argument
from kiln.cli.base import KilnCommand
from kiln.cli.driver.lookup import KINDS
from kiln.cli.exit_codes import UsageError
from kiln.plugins.outline import members_of, outline

#: By kind, the names of each contract, and the module from which an author imports each; in
#: the order in which an author meets them.
_NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    'cluster': {
        'kiln.cluster_drivers.base': ('ClusterDriver', 'NodeClusterDriver'),
        'kiln.cluster_drivers.values': (
            'Context', 'Secrets', 'NoSecrets', 'join_token', 'Bootstrap',
            'Readiness', 'ReadyState', 'READY', 'Drained', 'DRAINED',
            'StatusReport', 'Progress', 'PlannedChange', 'PlannedGroup', 'Loss', 'Existing',
            'Cap',
        ),
        'kiln.models': ('InjectedFile', 'AmphoraType'),
        'kiln.cluster_drivers.readiness': (
            'ReadyRule', 'WhenActive', 'WhenConsole', 'WhenTcp', 'WhenHttp', 'within_deadline',
        ),
        'kiln.clock': ('current_deadline', 'Deadline'),
        'kiln.cluster_drivers.scale': ('ScaleManager', 'DefaultScaleManager'),
        'kiln.cluster_drivers.monitor': ('Monitor', 'Metric'),
        'kiln.cluster_drivers.verbs': ('Verb', 'Run'),
        'kiln.cluster_drivers.parameters': ('Parameter', 'ParameterType'),
        'kiln.cluster_drivers.templates.definition': ('TemplateDefinition',),
        'kiln.cluster_drivers.templates.mappings': (
            'ParameterMapping', 'FileMapping', 'OutputMapping', 'Definition',
        ),
        'kiln.clusters.models': (
            'Cluster', 'Node', 'NodeState', 'Operation', 'OperationKind', 'OperationState',
            'Cause', 'DriverPin', 'Aim',
        ),
        'kiln.clusters.spec': (
            'ClusterSpec', 'ClusterTemplate', 'NodeGroupSpec', 'MachineSpec', 'Effective',
            'Scope', 'Shape', 'Zones', 'ZoneRule', 'Place', 'Strategy', 'Portion', 'Health',
            'Fallback', 'VictimRule',
        ),
        'kiln.clusters.exceptions': ('ClusterDriverError', 'MissingCapability', 'Problem'),
        'kiln.cluster_drivers.expectations': ('Expectations', 'Change', 'Least'),
        'kiln.testing.clusters': (
            'MachineBench', 'Booted', 'Request', 'Response', 'Machine', 'EngineBench',
            'EngineNode', 'ClusterDriverConformance', 'CrashConformance',
            'OwnEngineConformance', 'Site', 'run_cluster_conformance', 'find_driver',
        ),
        'kiln.testing.clock': ('VirtualClock',),
    },
    'compute': {
        'kiln.compute_drivers.base': ('AmphoraComputeDriver',),
        'kiln.compute_drivers.hooks': ('ComputeHooks',),
        'kiln.models': ('BuildRequest', 'InjectedFile', 'Amphora', 'State'),
    },
}  # fmt: skip


class Contract(KilnCommand):
    """Print the contract of drivers: classes, functions and values with their promises.

    Each has the line that imports it. It is the outline of kiln's own source, so it fits the
    installed version.
    """

    arguments = (
        argument(
            'name',
            metavar='NAME',
            nargs='?',
            help='Only this class, function or value, or this member of any class, such as drain.',
        ),
        argument(
            '--kind',
            choices=KINDS,
            default='cluster',
            help='Kind of the drivers (default: cluster).',
        ),
        TEXT_FORMAT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        wanted, contract = parsed_args.name, _NAMES[parsed_args.kind]
        found = {
            name: f'from {module} import {name}\n\n{text}'
            for module, names in contract.items()
            for name in names
            if (text := _outline(module, name, wanted))
        }
        if not found:
            known = ', '.join(name for names in contract.values() for name in names)
            raise UsageError(
                f'Cannot find {wanted!r} in the contract of {parsed_args.kind} drivers: name a '
                f'member, or one of {known}.'
            )
        self.write_as(parsed_args.formatter, text='\n\n\n'.join(found.values()), data=found)


def _outline(module: str, name: str, wanted: str | None) -> str:
    """Return the outline of a name, or of its wanted member; empty if it is not wanted."""
    home = _home(module, name)
    if wanted in (None, name):
        return outline(home, name)
    return outline(home, name, wanted) if wanted in members_of(home, name) else ''


def _home(module: str, name: str) -> ModuleType:
    """Return the module that defines a name, which another can export."""
    value = pkgutil.resolve_name(f'{module}:{name}')
    # Classes and functions know their module; other values are exported by it alone.
    return sys.modules[value.__module__ if hasattr(value, '__qualname__') else module]
