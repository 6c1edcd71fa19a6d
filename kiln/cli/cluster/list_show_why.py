"""Commands that show clusters: cluster list, show, why."""

from __future__ import annotations

import argparse

from kiln.cli.arguments import CLUSTER, TEXT_FORMAT, argument, flag
from kiln.cli.base import KilnCommand, KilnLister, KilnShow, Rows
from kiln.cli.output.cluster_fields import (
    BRIEF,
    chain_fields,
    cluster_details,
    cluster_fields,
    output_lines,
)
from kiln.cli.output.views import fields, table

_ALL = (*BRIEF, 'id', 'generation', 'paused')


class List(KilnLister):
    """List the clusters of this site."""

    arguments = (flag('--long', 'Show all columns.'),)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_site() as site:
            rows = [cluster_fields(view) for view in site.clusters.list()]
            if rows and site.clusters.is_abandoned():
                self.app.say(
                    'No conductor runs any more, so the nodes are shown as they were last seen; '
                    "'kiln conductor' watches all clusters."
                )
        everything = parsed_args.long or parsed_args.formatter != 'table'
        return table(_ALL if everything else BRIEF, rows)


class Show(KilnShow):
    """Show a cluster: its conditions, groups, outputs and newest operation."""

    arguments = (CLUSTER,)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_site() as site:
            view = site.clusters.show(parsed_args.cluster)
            shown = cluster_details(view, site.clusters.conditions(view))
        if parsed_args.formatter == 'table':
            shown['driver'] = '{name} {version} ({origin})'.format(**shown['driver'])
            if shown['operation']:
                shown['operation'] = '{kind} {state}'.format(**shown['operation'])
            shown['conditions'] = '\n'.join(
                ': '.join([one['kind'], *(cause['message'] for cause in one['cause'])])
                for one in shown['conditions']
            )
            shown['groups'] = '\n'.join(
                f'{group["name"]}: {group["count"]} desired'
                + ''.join(f', {count} {state}' for state, count in group['nodes'].items())
                for group in shown['groups']
            )
            shown['outputs'] = '\n'.join(output_lines(shown['outputs']))
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

        # What keeps it waiting is what it explains.
        with self.app.open_site(waits=False) as site:
            clusters = site.clusters
            view = clusters.show(parsed_args.cluster)
            node = None
            if parsed_args.node is not None:
                node = clusters.node(view.cluster.id, parsed_args.node)
            attention = clusters.attention(view.cluster.id)
            trouble = clusters.driver_trouble(view)
            outages = site.outages(view, node)
        reasons = list(
            why(
                view,
                self.app.clock.time(),
                attention=attention,
                outages=outages,
                node=node,
                driver_trouble=trouble,
            )
        )
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
