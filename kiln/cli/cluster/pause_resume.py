"""The commands ``kiln cluster pause`` and ``kiln cluster resume``."""

from __future__ import annotations

import abc
import argparse
from typing import TYPE_CHECKING

from kiln.cli.arguments import CLUSTER
from kiln.cli.base import KilnCommand

if TYPE_CHECKING:
    from kiln.cluster_service.service import Clusters


class _AtOnce(KilnCommand):
    """A command that is done as soon as the store is written."""

    arguments = (CLUSTER,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_site() as site:
            self.app.say(self.act(site.clusters, parsed_args.cluster))

    @abc.abstractmethod
    def act(self, clusters: Clusters, name: str) -> str:
        """Run the action; return the line to print."""


class Pause(_AtOnce):
    """Pause a cluster: kiln starts nothing for it until it is resumed."""

    def act(self, clusters: Clusters, name: str) -> str:
        return f'{clusters.pause(name).name} is paused; nothing starts for it until it is resumed.'


class Resume(_AtOnce):
    """Resume a paused cluster."""

    def act(self, clusters: Clusters, name: str) -> str:
        return f'{clusters.resume(name).name} is no longer paused.'
