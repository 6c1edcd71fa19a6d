"""The commands ``kiln cluster pause`` and ``kiln cluster resume``."""

from __future__ import annotations

import argparse

from kiln.cli.arguments import CLUSTER
from kiln.cli.base import KilnCommand


class Pause(KilnCommand):
    """Pause a cluster: kiln starts nothing for it until it is resumed."""

    arguments = (CLUSTER,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_site() as site:
            name = site.clusters.pause(parsed_args.cluster).name
        self.app.say(f'{name} is paused; nothing starts for it until it is resumed.')


class Resume(KilnCommand):
    """Resume a paused cluster."""

    arguments = (CLUSTER,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_site() as site:
            name = site.clusters.resume(parsed_args.cluster).name
        self.app.say(f'{name} is no longer paused.')
