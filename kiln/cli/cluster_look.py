"""Commands that show clusters, and change nothing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kiln.cli.base import KilnCommand, KilnLister, KilnShow, Rows, add_text_format
from kiln.cli.changing import Working
from kiln.cli.cluster_fields import (
    BRIEF,
    chain_fields,
    cluster_details,
    cluster_fields,
    event_fields,
    receipt_fields,
)
from kiln.cli.stores import configured_site
from kiln.cli.views import cells, fields, moment
from kiln.cluster_exceptions import ClusterNotFound

if TYPE_CHECKING:
    from kiln.cluster_models import Event, Tombstone
    from kiln.clusters.service import Clusters

#: Seconds between two looks for new events.
_FOLLOW_S = 0.5


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Let the command take one cluster."""
    parser.add_argument('cluster', metavar='CLUSTER', help='Name or id of the cluster.')


class List(KilnLister):
    """List the clusters of this site."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--long', action='store_true', help='Show all columns.')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Read the store."""
        with configured_site(self.app.settings, self.app.clock) as site:
            rows = [cluster_fields(view) for view in site.clusters.list()]
        everything = parsed_args.long or parsed_args.formatter != 'table'
        columns = _ALL if everything else BRIEF
        return columns, [cells([row[column] for column in columns]) for row in rows]


_ALL = (*BRIEF, 'id', 'generation', 'paused')


class Show(KilnShow):
    """Show a cluster, its groups, and the newest operation on it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_cluster(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Read the store."""
        with configured_site(self.app.settings, self.app.clock) as site:
            shown = cluster_details(site.clusters.show(parsed_args.cluster))
        if parsed_args.formatter == 'table':
            shown['driver'] = '{name} {version} ({origin})'.format(**shown['driver'])
            if shown['operation']:
                shown['operation'] = '{kind} {state}'.format(**shown['operation'])
            shown['groups'] = '\n'.join(
                f'{group["name"]}: {group["count"]} wanted'
                + ''.join(f', {count} {state}' for state, count in group['nodes'].items())
                for group in shown['groups']
            )
        return fields(shown)


class Why(KilnCommand):
    """Tell why a cluster is as it is, what kiln does next, and what you can do."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_cluster(parser)
        parser.add_argument(
            'node', nargs='?', metavar='NODE', help='Tell of this node alone, by name or id.'
        )
        add_text_format(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Read the store, and explain."""
        from kiln.clusters.why import why

        with configured_site(self.app.settings, self.app.clock) as site:
            clusters = site.clusters
            view = clusters.show(parsed_args.cluster)
            node = None
            if parsed_args.node is not None:
                node = clusters.node(view.cluster.id, parsed_args.node)
            worker = clusters.worker(view.cluster.id)
        reasons = list(why(view, self.app.clock.time(), worker=worker, node=node))
        if parsed_args.formatter == 'json':
            said = [
                {
                    'about': one.about,
                    'said': one.said,
                    'causes': chain_fields(one.cause),
                    'next': one.next,
                    'do': list(one.do),
                }
                for one in reasons
            ]
            self.app.stdout.write(f'{json.dumps(said, indent=2)}\n')
            return
        for reason in reasons:
            self.app.stdout.writelines(f'{line}\n' for line in reason.lines())


class Events(KilnCommand):
    """Show what has happened, a line for each event; as JSON, an object on each line.

    The objects have the keys v, seq, at, kind, cluster, cluster_id, operation_id,
    node_id, message and facts. Who goes on with --after and the last seq misses
    none. --follow ends with Ctrl-C.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add = parser.add_argument
        add('cluster', nargs='?', metavar='CLUSTER', help='Name or id (default: all clusters).')
        add('--follow', action='store_true', help='Go on with what happens from now on.')
        add(
            '--after',
            type=_number,
            default=0,
            metavar='SEQ',
            help='Begin after the event of this number.',
        )
        add_text_format(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Read the store, again and again if that is wanted."""
        with configured_site(self.app.settings, self.app.clock) as site:
            clusters = site.clusters
            cluster_id = _id_of(clusters, parsed_args.cluster)
            after = parsed_args.after
            names: dict[str, str] = {}
            while True:
                for event in clusters.events(after=after, cluster_id=cluster_id):
                    after = event.seq
                    self._tell(event, _name_of(clusters, event, names), parsed_args)
                self.app.stdout.flush()
                if not parsed_args.follow:
                    return
                self.app.clock.sleep(_FOLLOW_S)

    def _tell(self, event: Event, cluster: str, args: argparse.Namespace) -> None:
        shown = event_fields(event, cluster)
        if args.formatter == 'json':
            line = json.dumps(shown)
        else:
            line = f'{shown["at"]}  {cluster}  {" ".join(shown["message"].split())}'
        self.app.stdout.write(f'{line}\n')


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise argparse.ArgumentTypeError(f'{text!r} is no whole number from 0 on')
    return int(text)


def _id_of(clusters: Clusters, name: str | None) -> str | None:
    """Return the id of a cluster, also of one that is gone."""
    if name is None:
        return None
    try:
        return clusters.show(name).cluster.id
    except ClusterNotFound:
        return clusters.receipt(name).cluster_id


def _name_of(clusters: Clusters, event: Event, names: dict[str, str]) -> str:
    if event.cluster_id not in names:
        names.update({view.cluster.id: view.cluster.name for view in clusters.list()})
    if event.cluster_id not in names:
        try:
            names[event.cluster_id] = clusters.receipt(event.cluster_id).name
        except ClusterNotFound:
            names[event.cluster_id] = event.cluster_id
    return names[event.cluster_id]


class Receipt(KilnCommand):
    """Show the proof that nothing is left of a deleted cluster."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_cluster(parser)
        add_text_format(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Read the store."""
        with configured_site(self.app.settings, self.app.clock) as site:
            receipt = site.clusters.receipt(parsed_args.cluster)
        if parsed_args.formatter == 'json':
            self.app.stdout.write(f'{json.dumps(receipt_fields(receipt), indent=2)}\n')
            return
        self.app.stdout.writelines(f'{line}\n' for line in _receipt_lines(receipt))


def _receipt_lines(receipt: Tombstone) -> Iterator[str]:
    gone, abandoned = receipt.holdings, receipt.abandoned
    yield f'{receipt.name} ({receipt.cluster_id}) was deleted at {moment(receipt.deleted_at)}'
    for one in gone:
        yield f'  {one.kind} {one.id} of {one.backend}: gone at {moment(one.gone_at)}'
    for one in abandoned:
        yield f'  {one.kind} {one.id} of {one.backend}: ABANDONED, it may still be there'
    yield f'{len(gone)} confirmed gone, {len(abandoned)} abandoned'


class Watch(Working):
    """Follow what is under way for a cluster to its end, and work on it meanwhile."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_cluster(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Follow; there may be nothing to follow."""
        from kiln.cli.following import Entered

        with configured_site(self.app.settings, self.app.clock) as site:
            view = site.clusters.show(parsed_args.cluster)
            operation = view.operation
            if operation is None or operation.state.ended:
                when = f' since {moment(operation.ended_at)}' if operation else ''
                self.app.say(f'{view.cluster.name}: nothing is under way{when}.')
                return
            entered = Entered(
                cluster=view.cluster.name,
                operation=operation,
                after=site.clusters.last_event(),
                paused=view.cluster.paused,
            )
            self.settle(self.follow(site, [entered]), 1)
