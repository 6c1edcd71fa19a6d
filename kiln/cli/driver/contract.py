"""The command ``kiln driver contract``: what a driver must and can do, as text."""

from __future__ import annotations

import argparse
import pkgutil

from kiln.cli.arguments import TEXT_FORMAT, argument
from kiln.cli.base import KilnCommand
from kiln.cli.driver.lookup import KINDS
from kiln.cli.exit_codes import UsageError
from kiln.plugins.outline import members_of, outline

_VALUES = 'kiln.cluster_drivers.values'
#: The classes of each contract, in the order in which an author meets them.
_CLASSES = {
    'cluster': (
        'kiln.cluster_drivers.base:ClusterDriver',
        'kiln.cluster_drivers.base:NodeClusterDriver',
        *(
            f'{_VALUES}:{name}'
            for name in (
                'Context',
                'Secrets',
                'Bootstrap',
                'Readiness',
                'Drained',
                'StatusReport',
                'Progress',
                'PlannedChange',
                'PlannedGroup',
            )
        ),
        'kiln.cluster_drivers.scale:ScaleManager',
        'kiln.cluster_drivers.monitor:Monitor',
        'kiln.cluster_drivers.monitor:Metric',
        'kiln.cluster_drivers.verbs:Verb',
        'kiln.cluster_drivers.parameters:Parameter',
        'kiln.cluster_drivers.templates.definition:TemplateDefinition',
        'kiln.cluster_drivers.templates.mappings:ParameterMapping',
        'kiln.cluster_drivers.templates.mappings:FileMapping',
        'kiln.cluster_drivers.templates.mappings:OutputMapping',
        'kiln.clusters.models:Cluster',
        'kiln.clusters.models:Node',
        'kiln.clusters.models:NodeState',
        'kiln.clusters.models:Operation',
        'kiln.clusters.spec:ClusterSpec',
        'kiln.clusters.spec:NodeGroupSpec',
        'kiln.clusters.spec:MachineSpec',
        'kiln.clusters.exceptions:ClusterDriverError',
        'kiln.clusters.exceptions:Problem',
    ),
    'compute': (
        'kiln.compute_drivers.base:AmphoraComputeDriver',
        'kiln.compute_drivers.hooks:ComputeHooks',
        'kiln.models:BuildRequest',
        'kiln.models:Amphora',
        'kiln.models:State',
    ),
}


class Contract(KilnCommand):
    """Print the contract of drivers: classes and methods with their promises.

    It is the outline of kiln's own source, so it fits the installed version.
    """

    arguments = (
        argument(
            'name',
            metavar='NAME',
            nargs='?',
            help='Only this class, or this member of any class, such as drain.',
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
        classes = [pkgutil.resolve_name(path) for path in _CLASSES[parsed_args.kind]]
        name = parsed_args.name
        found = {
            one.__name__: outline(one, None if name in (None, one.__name__) else name)
            for one in classes
            if name in (None, one.__name__) or name in members_of(one)
        }
        if not found:
            names = ', '.join(one.__name__ for one in classes)
            raise UsageError(
                f'Cannot find {name!r} in the contract of {parsed_args.kind} drivers: name a '
                f'member, or one of {names}.'
            )
        self.write_as(parsed_args.formatter, text='\n\n'.join(found.values()), data=found)
