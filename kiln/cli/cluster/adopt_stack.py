"""Command that makes a stack of Heat that exists a cluster: cluster adopt-stack."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kiln.cli.arguments import argument
from kiln.cli.cluster.cluster_file import read_page
from kiln.cli.cluster.up_plan_schema import Declaring, planned
from kiln.cli.exit_codes import UsageError

if TYPE_CHECKING:
    from kiln.cluster_service.proposals import Proposal
    from kiln.cluster_service.site import Site


class AdoptStack(Declaring):
    """Make a stack of Heat that exists a cluster, and go on with it through Heat.

    The stack keeps its name and id, and becomes what the file declares. The plan shows what
    Heat would add, change, replace and delete for that; nothing happens before it is confirmed.
    """

    arguments = (
        argument('stack', metavar='STACK', help='Name or id of the stack.'),
        argument('file', metavar='FILE', help='Cluster file, or - for standard input.'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        file = read_page(parsed_args.file, self.app.stdin)
        if len(file.clusters) != 1:
            raise UsageError(
                f'Cannot adopt stack {parsed_args.stack}: the file declares '
                f'{len(file.clusters)} clusters. A stack becomes one cluster.'
            )
        with self.app.open_site() as site:
            proposals = planned(site, file, existing=parsed_args.stack)
            self.templates = file.templates
            self.change(site, proposals, parsed_args)

    def agree(self, site: Site, proposals: Sequence[Proposal], args: argparse.Namespace) -> None:
        """Return if the user confirms; the plan says what would be lost."""
        if not args.yes:
            (one,) = proposals
            self.ask(
                f'stack {args.stack} becomes cluster {one.cluster.name}, as planned above',
                'Continue? [y/N]',
                {'y', 'yes'},
            )
