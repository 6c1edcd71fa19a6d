"""Command that measures a cluster: cluster metrics."""

from __future__ import annotations

import argparse

from kiln.cli.arguments import CLUSTER
from kiln.cli.base import KilnLister, Rows
from kiln.cli.output.views import table

_COLUMNS = ('name', 'value', 'unit', 'help', 'reason')


class Metrics(KilnLister):
    """Show the utilisation of a cluster, as its driver measures it now."""

    arguments = (CLUSTER,)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_site() as site:
            readings = site.metrics(parsed_args.cluster)
        rows = [
            {
                'name': one.metric.name,
                'value': one.value,
                'unit': one.metric.unit,
                'help': one.metric.help,
                # Why the value is unknown.
                'reason': one.reason,
            }
            for one in readings
        ]
        return table(_COLUMNS, rows)
