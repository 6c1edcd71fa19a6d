"""Commands about the nodes of a cluster."""

from __future__ import annotations

import argparse

from kiln.cli.arguments import CLUSTER, LINES, TEXT_FORMAT, argument, flag
from kiln.cli.base import KilnCommand, KilnLister, KilnShow, Rows
from kiln.cli.cluster.base import FORCE, HARD, ChangingCluster
from kiln.cli.output.cluster_fields import NODE_BRIEF, node_fields
from kiln.cli.output.views import fields, table
from kiln.cluster_service import requests
from kiln.clusters.exceptions import ClusterError

_ALL = (
    *NODE_BRIEF, 'id', 'addresses', 'backend', 'compute_id', 'attempt', 'doomed', 'cause',
    'created_at',
)  # fmt: skip
NODE = argument('node', metavar='NODE', help='Name or id of the node.')
_NODES = {'nargs': '+', 'metavar': 'NODE', 'help': 'Nodes by name or id.'}
NODES = argument('nodes', **_NODES)


class List(KilnLister):
    """List the nodes of a cluster."""

    arguments = (
        CLUSTER,
        argument('--group', metavar='NAME', help='Only nodes of this group.'),
        flag('--long', 'Show all columns.'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_site() as site:
            nodes = site.clusters.show(parsed_args.cluster).nodes or ()
        rows = [node_fields(node) for node in nodes if parsed_args.group in (None, node.group)]
        everything = parsed_args.long or parsed_args.formatter != 'table'
        return table(_ALL if everything else NODE_BRIEF, rows)


class Show(KilnShow):
    """Show a node, even if it is gone."""

    arguments = (CLUSTER, NODE)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_site() as site:
            shown = node_fields(site.clusters.node(parsed_args.cluster, parsed_args.node))
        if parsed_args.formatter == 'table':
            shown['cause'] = '\n'.join(one['message'] for one in shown['cause'])
        return fields(shown)


class Remove(ChangingCluster):
    """Remove nodes; the desired counts of their groups shrink accordingly."""

    goes_back = True
    requested = requests.Resize
    arguments = (argument('remove', **_NODES), FORCE)


class Replace(ChangingCluster):
    """Replace nodes with new ones, a few at a time."""

    requested = requests.Replace
    arguments = (NODES,)


class Reboot(ChangingCluster):
    """Reboot nodes, a few at a time."""

    requested = requests.Reboot
    arguments = (NODES, HARD)


class Console(KilnCommand):
    """Print the console output of a node."""

    arguments = (CLUSTER, NODE, LINES, TEXT_FORMAT)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_site() as site:
            node = site.clusters.node(parsed_args.cluster, parsed_args.node)
            if node.compute_id is None:
                raise ClusterError(
                    f'Cannot read the console of node {node.name}: it is {node.state.value} and '
                    f"does not have a machine. 'kiln why' explains the state."
                )
            compute = site.backends.get(node.backend)
            text = compute.console_log(node.compute_id, lines=parsed_args.lines).result()
        data = {'id': node.id, 'name': node.name, 'console': text}
        self.write_as(parsed_args.formatter, text=text, data=data)
