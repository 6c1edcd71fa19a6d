"""Commands about single nodes of a cluster."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from kiln.cli.base import KilnCommand, KilnLister, KilnShow, Rows, add_text_format, whole
from kiln.cli.changing import ChangingCluster
from kiln.cli.cluster_acts import Rebooting
from kiln.cli.cluster_fields import NODE_BRIEF, node_fields
from kiln.cli.cluster_look import add_cluster
from kiln.cli.stores import configured_site
from kiln.cli.views import cells, fields
from kiln.cluster_exceptions import ClusterError

if TYPE_CHECKING:
    from kiln.clusters.requests import Request


class List(KilnLister):
    """List the nodes of a cluster."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_cluster(parser)
        parser.add_argument('--group', metavar='NAME', help='Only those of this group.')
        parser.add_argument('--long', action='store_true', help='Show all columns.')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Read the store."""
        with configured_site(self.app.settings, self.app.clock) as site:
            nodes = site.clusters.show(parsed_args.cluster).nodes or ()
        rows = [node_fields(node) for node in nodes if parsed_args.group in (None, node.group)]
        everything = parsed_args.long or parsed_args.formatter != 'table'
        columns = _ALL if everything else NODE_BRIEF
        return columns, [cells([row[column] for column in columns]) for row in rows]


_ALL = (
    *NODE_BRIEF, 'id', 'backend', 'compute_id', 'attempt', 'doomed', 'cause', 'created_at',
)  # fmt: skip


def add_node(parser: argparse.ArgumentParser) -> None:
    """Let the command take one node of a cluster."""
    add_cluster(parser)
    parser.add_argument('node', metavar='NODE', help='Name or id of the node.')


class Show(KilnShow):
    """Show a node, also one that is gone."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_node(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Read the store."""
        with configured_site(self.app.settings, self.app.clock) as site:
            shown = node_fields(site.clusters.node(parsed_args.cluster, parsed_args.node))
        if parsed_args.formatter == 'table':
            shown['cause'] = '\n'.join(one['message'] for one in shown['cause'])
        return fields(shown)


class _OnNodes(ChangingCluster):
    """A command on nodes that are named."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of this one."""
        super().add_arguments(parser)
        parser.add_argument('nodes', nargs='+', metavar='NODE', help='Nodes by name or id.')


class Remove(_OnNodes):
    """Remove nodes for good: their group has as many fewer."""

    goes_back = True

    def request(self, args: argparse.Namespace) -> Request:
        """Return what is asked for."""
        from kiln.clusters.requests import Resize

        return Resize(cluster=args.cluster, remove=tuple(args.nodes))


class Replace(_OnNodes):
    """Make other nodes for some, a few at a time."""

    def request(self, args: argparse.Namespace) -> Request:
        """Return what is asked for."""
        from kiln.clusters.requests import Replace as Request

        return Request(cluster=args.cluster, nodes=tuple(args.nodes))


class Reboot(Rebooting, _OnNodes):
    """Reboot nodes, a few at a time."""


class Console(KilnCommand):
    """Print what a node wrote on its console."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_node(parser)
        parser.add_argument('--lines', type=whole, metavar='N', help='Print the last N lines.')
        add_text_format(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Ask the backend of the node, and print."""
        with configured_site(self.app.settings, self.app.clock) as site:
            node = site.clusters.node(parsed_args.cluster, parsed_args.node)
            if node.compute_id is None:
                raise ClusterError(
                    f'Cannot read the console of node {node.name}: it is {node.state.value} and '
                    f"has no machine yet. 'kiln why' tells more."
                )
            compute = site.backends.get(node.backend)
            text = compute.console_log(node.compute_id, lines=parsed_args.lines).result()
        if parsed_args.formatter == 'json':
            text = json.dumps({'id': node.id, 'name': node.name, 'console': text}, indent=2)
        self.app.stdout.write(text if text.endswith('\n') or not text else f'{text}\n')
