"""Command that has Heat let go of the servers of a cluster: cluster forget-stack."""

from __future__ import annotations

import argparse

from kiln.cli.arguments import CLUSTER, argument
from kiln.cli.base import KilnCommand
from kiln.cli.exit_codes import UsageError
from kiln.cli.site.stores import clusters_extra


class ForgetStack(KilnCommand):
    """Have Heat forget a stack whose servers are nodes of a cluster.

    Heat deletes the stack, and nothing that the stack has made: first the stack is updated so
    that Heat retains each of its resources, and kiln looks whether it does. The command can be
    repeated after an interruption.
    """

    arguments = (CLUSTER, argument('stack', metavar='STACK', help='Name or id of the stack.'))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with clusters_extra():
            from kiln.cluster_drivers.heat.forgetting import forgetting
        with self.app.open_site() as site:
            view = site.clusters.show(parsed_args.cluster)
            document = site.credentials(view.cluster.spec.credentials)
            stack = forgetting(document, parsed_args.stack, self.app.clock, self.app.say)
            nodes = {node.compute_id for node in view.nodes or ()}
            if others := sorted(stack.server_ids() - nodes):
                raise UsageError(
                    f'Cannot have Heat forget stack {stack.name}: of its servers, '
                    f'{", ".join(others)} are not nodes of {view.cluster.name}. Take the '
                    f"servers over with 'kiln cluster adopt-stack', or delete those."
                )
            stack.run()
        self.app.say(f'Heat has forgotten stack {stack.name}; its servers are as they were.')
