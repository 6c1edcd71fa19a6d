"""The command ``kiln cluster delete``."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kiln.cli.arguments import flag
from kiln.cli.cluster.base import ChangingCluster
from kiln.cluster_service import requests
from kiln.clusters.exceptions import ClusterNotFound

if TYPE_CHECKING:
    from kiln.cli.cluster.base import Planned
    from kiln.cluster_service.proposals import Proposal
    from kiln.cluster_service.site import Site


class Delete(ChangingCluster):
    """Delete a cluster with all of its resources; a receipt of them remains.

    With --force the deletion always ends: a resource that its backend does not delete,
    or whose backend no longer exists, is abandoned, and the receipt names it.
    """

    requested = requests.Delete
    arguments = (
        flag(
            '--force',
            'Do not drain nodes, and abandon what cannot be deleted; confirmed by typing the '
            'name of the cluster, or by --yes.',
        ),
    )

    def agree(self, site: Site, proposals: Sequence[Proposal], args: argparse.Namespace) -> None:
        """Require the name of the cluster where resources can be abandoned."""
        if not args.force:
            super().agree(site, proposals, args)
        elif not args.yes:
            (name,) = (one.cluster.name for one in proposals)
            said = f'cluster {name} is deleted, and what cannot be deleted is abandoned'
            self.ask(said, 'Type its name to continue:', {name.casefold()})

    def report(self, site: Site, planned: Sequence[Planned], args: argparse.Namespace) -> None:
        """Print the abandoned resources, too."""
        super().report(site, planned, args)
        clusters = site.clusters
        for _, entered in planned:
            if entered is None or not clusters.operation(entered.operation.id).state.ended:
                continue
            with contextlib.suppress(ClusterNotFound):
                for one in clusters.receipt(entered.operation.cluster_id).abandoned:
                    self.app.say(
                        f'{entered.cluster.name}: {one.kind} {one.id} of {one.backend} was '
                        f"abandoned; it might still exist. 'kiln --backend {one.backend} "
                        f"orphans' finds it."
                    )
