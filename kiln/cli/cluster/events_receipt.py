"""The commands ``kiln cluster events`` and ``kiln cluster receipt``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kiln.cli.arguments import CLUSTER, TEXT_FORMAT, argument, count, flag
from kiln.cli.base import KilnCommand
from kiln.cli.output.cluster_fields import event_fields, receipt_fields
from kiln.cli.output.views import moment
from kiln.clusters.exceptions import ClusterNotFound

if TYPE_CHECKING:
    from kiln.cluster_service.service import Clusters
    from kiln.clusters.models import Event, Holding, Tombstone

#: Seconds between two polls for new events.
_FOLLOW_S = 0.5


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
        flag('--follow', 'Keep printing new events.'),
        argument(
            '--after',
            type=count,
            default=0,
            metavar='SEQ',
            help='Print only the events after this number.',
        ),
        TEXT_FORMAT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_site() as site:
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
        with self.app.open_site() as site:
            receipt = site.clusters.receipt(parsed_args.cluster)
        text = '\n'.join(_receipt_lines(receipt))
        self.write_as(parsed_args.formatter, text=text, data=receipt_fields(receipt))


def _receipt_lines(receipt: Tombstone) -> Iterator[str]:
    gone, abandoned = receipt.holdings, receipt.abandoned
    yield f'{receipt.name} ({receipt.cluster_id}) was deleted at {moment(receipt.deleted_at)}'
    for one in gone:
        how = f'gone at {moment(one.gone_at)}'
        if one.of_engine:
            how = f'its driver reported at {moment(one.gone_at)} that all of it is deleted'
        yield f'  {_what(one)}: {how}'
    for one in abandoned:
        yield f'  {_what(one)}: ABANDONED, it might still exist'
    yield f'{len(gone)} confirmed gone, {len(abandoned)} abandoned'


def _what(one: Holding) -> str:
    # Receipts of older versions have no names of nodes.
    of_node = f'node {one.node_name}, ' if one.node_name else ''
    return f'{of_node}{one.kind} {one.id} of {one.backend}'
