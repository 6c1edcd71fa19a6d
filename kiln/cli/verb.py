"""The command for what only one cluster driver can do."""

from __future__ import annotations

import argparse
import json
from typing import Any

from kiln.cli.base import KilnShow, Rows, pair
from kiln.cli.stores import configured_site
from kiln.cli.views import fields


class Run(KilnShow):
    """Have a cluster driver do what only this one can do; see 'kiln driver doc DRIVER'."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add = parser.add_argument
        add('driver', metavar='DRIVER', help='Name of the cluster driver.')
        add('verb', metavar='VERB', help='One of its verbs.')
        add('cluster', metavar='CLUSTER', help='Name or id of a cluster of this driver.')
        add(
            'arguments',
            nargs='*',
            type=pair,
            metavar='NAME=VALUE',
            help='What the verb takes, as JSON or as plain text.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Run it here; no conductor is needed."""
        given = {name: _value(text) for name, text in parsed_args.arguments}
        with configured_site(self.app.settings, self.app.clock) as site:
            answer = site.verbs.run(
                parsed_args.driver, parsed_args.verb, parsed_args.cluster, given
            )
        return fields(answer)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    # Also a number of more digits than Python reads, and text that is nested too deep.
    except (ValueError, RecursionError):
        return text
