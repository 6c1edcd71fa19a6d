"""The command ``kiln x``, which runs verbs of cluster drivers."""

from __future__ import annotations

import argparse

from kiln.cli.arguments import argument, json_or_text, pair
from kiln.cli.base import KilnShow, Rows
from kiln.cli.output.views import fields


class X(KilnShow):
    """Run a verb of a cluster driver; 'kiln driver doc DRIVER' lists its verbs."""

    arguments = (
        argument('driver', metavar='DRIVER', help='Name of the cluster driver.'),
        argument('verb', metavar='VERB', help='Verb of the driver.'),
        argument('cluster', metavar='CLUSTER', help='Name or id of a cluster of this driver.'),
        argument(
            'arguments',
            nargs='*',
            type=pair,
            metavar='NAME=VALUE',
            help='Argument of the verb, as JSON or as plain text.',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        given = {name: json_or_text(text) for name, text in parsed_args.arguments}
        with self.app.open_site() as site:
            answer = site.run_verb(
                parsed_args.driver, parsed_args.verb, parsed_args.cluster, given
            )
        return fields(answer)
