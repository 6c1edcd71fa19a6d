"""Command that makes a stack of Heat that exists a cluster: cluster adopt-stack."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kiln.cli.arguments import argument
from kiln.cli.cluster.cluster_file import read_page
from kiln.cli.cluster.up_plan_schema import Declaring, planned
from kiln.cli.exit_codes import UsageError
from kiln.cli.site.stores import clusters_extra

if TYPE_CHECKING:
    from kiln.cli.cluster.base import Planned
    from kiln.cluster_drivers.heat.stack_servers import StackServers
    from kiln.cluster_file.reading import ClusterFile
    from kiln.cluster_service.proposals import Proposal
    from kiln.cluster_service.requests import Declare
    from kiln.cluster_service.site import Site


class AdoptStack(Declaring):
    """Make a stack of Heat that exists a cluster, or its servers the nodes of one.

    The driver of the cluster decides. One on Heat goes on with the stack, which keeps its name
    and id: the plan shows what Heat would change. A driver of nodes takes its servers over as they
    are, and leaves the stack alone. Without FILE nothing is planned: it prints a file that
    declares the servers as nodes, each group after a resource of the stack.
    """

    arguments = (
        argument('stack', metavar='STACK', help='Name or id of the stack.'),
        argument('file', metavar='FILE', nargs='?', help='Cluster file, or - for standard input.'),
        argument(
            '--credentials',
            metavar='NAME',
            help='Without FILE: the secret with the credentials for Heat (default: as set for '
            'the site). A file names its own.',
        ),
    )

    #: The stack whose servers are taken over.
    _left: StackServers | None = None

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.file is None:
            with self.app.open_site() as site:
                self._describe(site, parsed_args)
            return
        if parsed_args.credentials is not None:
            raise UsageError('Cannot use --credentials with FILE: write them in the file.')
        file = read_page(parsed_args.file, self.app.stdin)
        if len(file.clusters) != 1:
            raise UsageError(
                f'Cannot adopt stack {parsed_args.stack}: the file declares '
                f'{len(file.clusters)} clusters. A stack becomes one cluster.'
            )
        self.templates = file.templates
        with self.app.open_site() as site:
            request, self._left = _request(site, file, parsed_args.stack)
            self.change(site, planned(site, file, request), parsed_args)

    def _describe(self, site: Site, args: argparse.Namespace) -> None:
        """Print a file that declares the servers of the stack as nodes."""
        with clusters_extra():
            from kiln.cluster_drivers.heat.stack_servers import servers_of
            from kiln.cluster_file.from_machines import spec_of
            from kiln.cluster_file.writing import dump
        stack = servers_of(site.credentials(args.credentials), args.stack)
        compute = site.backends.get(None)
        # All are read at once.
        reads = {
            name: [compute.get_amphora(amphora_id=one) for one in ids]
            for name, ids in stack.groups.items()
        }
        groups = {name: [read.result() for read in asked] for name, asked in reads.items()}
        counts = ', '.join(f'{len(ids)} of {name}' for name, ids in stack.groups.items())
        self.app.say(f'Stack {stack.name} ({stack.id}) is {stack.state}. Servers: {counts}.')
        self.write(dump(spec_of(stack.name, groups)).rstrip('\n'))

    def agree(self, site: Site, proposals: Sequence[Proposal], args: argparse.Namespace) -> None:
        """Return if the user confirms; the plan says what would be lost."""
        if not args.yes:
            (one,) = proposals
            what = f'stack {args.stack} becomes'
            if one.taken:
                what = f'{len(one.taken)} servers of stack {args.stack} become nodes of'
            self.ask(
                f'{what} cluster {one.cluster.name}, as planned above',
                'Continue? [y/N]',
                {'y', 'yes'},
            )

    def report(self, site: Site, planned: Sequence[Planned], args: argparse.Namespace) -> None:
        """Print the outputs, and what is to be done about a stack that Heat still has."""
        super().report(site, planned, args)
        if self._left is not None and any(one is not None for _, one in planned):
            ((proposal, _),) = planned
            name, cluster = self._left.name, proposal.cluster.name
            self.app.say(
                f'Stack {name} still has the servers in Heat: what changes or deletes the stack '
                f'changes or deletes nodes of {cluster}. Have Heat let go of them: '
                f"'kiln cluster forget-stack {cluster} {name}'."
            )


def _request(site: Site, file: ClusterFile, reference: str) -> tuple[Declare, StackServers | None]:
    """Return the request, and the stack if its servers are taken over."""
    from kiln.cluster_drivers.heat.stack_servers import servers_of
    from kiln.cluster_service.requests import AdoptExisting, Declare, TakeOver

    (cluster,) = file.clusters
    declared = Declare(spec=cluster, templates=file.templates)
    if not site.clusters.builds_nodes(declared):
        request = AdoptExisting(spec=cluster, templates=file.templates, existing=reference)
        return request, None
    stack = servers_of(site.credentials(cluster.credentials), reference)
    machines = tuple((name, one) for name, ids in stack.groups.items() for one in ids)
    return TakeOver(spec=cluster, templates=file.templates, machines=machines), stack
