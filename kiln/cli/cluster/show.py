"""Read-only commands about clusters: list, show, why, events, receipt, watch."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kiln.cli.arguments import (
    CLUSTER,
    TEXT_FORMAT,
    KilnCommand,
    KilnLister,
    KilnShow,
    Rows,
    argument,
)
from kiln.cli.cluster.changing import Working
from kiln.cli.output.cluster_fields import (
    BRIEF,
    chain_fields,
    cluster_details,
    cluster_fields,
    event_fields,
    receipt_fields,
)
from kiln.cli.output.views import fields, moment, table
from kiln.cli.site.stores import configured_site
from kiln.clusters.exceptions import ClusterNotFound

if TYPE_CHECKING:
    from kiln.cluster_service.service import Clusters
    from kiln.clusters.models import Event, Tombstone

#: Seconds between two polls for new events.
_FOLLOW_S = 0.5


_ALL = (*BRIEF, 'id', 'generation', 'paused')


class List(KilnLister):
    """List the clusters of this site."""

    arguments = (argument('--long', action='store_true', help='Show all columns.'),)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with configured_site(self.app.settings, self.app.clock) as site:
            rows = [cluster_fields(view) for view in site.clusters.list()]
        everything = parsed_args.long or parsed_args.formatter != 'table'
        return table(_ALL if everything else BRIEF, rows)


class Show(KilnShow):
    """Show a cluster, its groups and its newest operation."""

    arguments = (CLUSTER,)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with configured_site(self.app.settings, self.app.clock) as site:
            shown = cluster_details(site.clusters.show(parsed_args.cluster))
        if parsed_args.formatter == 'table':
            shown['driver'] = '{name} {version} ({origin})'.format(**shown['driver'])
            if shown['operation']:
                shown['operation'] = '{kind} {state}'.format(**shown['operation'])
            shown['groups'] = '\n'.join(
                f'{group["name"]}: {group["count"]} desired'
                + ''.join(f', {count} {state}' for state, count in group['nodes'].items())
                for group in shown['groups']
            )
        return fields(shown)


class Why(KilnCommand):
    """Explain the state of a cluster, what kiln does next, and what you can do."""

    arguments = (
        CLUSTER,
        argument('node', nargs='?', metavar='NODE', help='Only this node, by name or id.'),
        TEXT_FORMAT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from kiln.cluster_service.why import why

        with configured_site(self.app.settings, self.app.clock) as site:
            clusters = site.clusters
            view = clusters.show(parsed_args.cluster)
            node = None
            if parsed_args.node is not None:
                node = clusters.node(view.cluster.id, parsed_args.node)
            worker = clusters.worker(view.cluster.id)
        reasons = list(why(view, self.app.clock.time(), worker=worker, node=node))
        data = [
            {
                'about': one.about,
                'said': one.said,
                'causes': chain_fields(one.cause),
                'next': one.next,
                'do': list(one.do),
            }
            for one in reasons
        ]
        text = '\n'.join(line for one in reasons for line in one.lines())
        self.write_as(parsed_args.formatter, text=text, data=data)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise argparse.ArgumentTypeError(f'{text!r} is not a whole number from 0')
    return int(text)


class Events(KilnCommand):
    """Show events, one line each; as JSON, one object on each line.

    The objects have the keys v, seq, at, kind, cluster, cluster_id, operation_id,
    node_id, message and facts. To miss no event, continue with --after and the last
    seq. --follow ends with Ctrl-C.
    """

    arguments = (
        argument(
            'cluster', nargs='?', metavar='CLUSTER', help='Name or id (default: all clusters).'
        ),
        argument('--follow', action='store_true', help='Keep printing new events.'),
        argument(
            '--after',
            type=_number,
            default=0,
            metavar='SEQ',
            help='Print only the events after this number.',
        ),
        TEXT_FORMAT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
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


def _id_of(clusters: Clusters, name: str | None) -> str | None:
    """Return the id of a cluster, even if it is deleted."""
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
    """Show the receipt of a deleted cluster: what was deleted, and what was abandoned."""

    arguments = (CLUSTER, TEXT_FORMAT)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with configured_site(self.app.settings, self.app.clock) as site:
            receipt = site.clusters.receipt(parsed_args.cluster)
        text = '\n'.join(_receipt_lines(receipt))
        self.write_as(parsed_args.formatter, text=text, data=receipt_fields(receipt))


def _receipt_lines(receipt: Tombstone) -> Iterator[str]:
    gone, abandoned = receipt.holdings, receipt.abandoned
    yield f'{receipt.name} ({receipt.cluster_id}) was deleted at {moment(receipt.deleted_at)}'
    for one in gone:
        yield f'  {one.kind} {one.id} of {one.backend}: gone at {moment(one.gone_at)}'
    for one in abandoned:
        yield f'  {one.kind} {one.id} of {one.backend}: ABANDONED, it might still exist'
    yield f'{len(gone)} confirmed gone, {len(abandoned)} abandoned'


class Watch(Working):
    """Follow the running operation of a cluster to its end, and work on it."""

    arguments = (CLUSTER,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from kiln.cli.cluster.following import Entered

        with configured_site(self.app.settings, self.app.clock) as site:
            view = site.clusters.show(parsed_args.cluster)
            operation = view.operation
            if operation is None or operation.state.ended:
                when = f' since {moment(operation.ended_at)}' if operation else ''
                self.app.say(f'{view.cluster.name}: nothing is running{when}.')
                return
            entered = Entered(
                cluster=view.cluster.name,
                operation=operation,
                after=site.clusters.last_event(),
                paused=view.cluster.paused,
            )
            self.settle(self.follow(site, [entered]), 1)
