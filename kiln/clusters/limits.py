"""Limits of nodes: of one cluster, of the clusters of one owner, and of the whole site."""

from __future__ import annotations

import dataclasses

from kiln.clusters.exceptions import TooManyNodes
from kiln.clusters.models import Cluster, Operation, OperationKind


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NodeLimits:
    """The most nodes, each under the name of its option."""

    max_nodes_per_cluster: int = 10_000
    max_nodes_per_owner: int = 50_000
    max_nodes_per_site: int = 200_000
    #: The owner of clusters that name no credentials; see :func:`owner_of`.
    site_owner: str | None = None

    def owner_of(self, cluster: Cluster) -> str | None:
        """Return the owner of a cluster: the name of its credentials, or else of the site's."""
        return cluster.spec.credentials or self.site_owner

    def check_cluster(self, name: str, nodes: int) -> None:
        """Return if a cluster is allowed to have that many nodes.

        :raises TooManyNodes: it is not.
        """
        self._check(name, nodes, 'it', nodes, 'max_nodes_per_cluster')

    def check_owner(self, name: str, nodes: int, owner: str | None, all_nodes: int) -> None:
        """Return if the clusters of an owner are allowed to have that many nodes in all.

        :raises TooManyNodes: they are not.
        """
        whose = f'all clusters of {owner}' if owner else 'all clusters without credentials'
        self._check(name, nodes, whose, all_nodes, 'max_nodes_per_owner')

    def check_site(self, name: str, nodes: int, all_nodes: int) -> None:
        """Return if the site is allowed to have that many nodes in all.

        :raises TooManyNodes: it is not.
        """
        self._check(name, nodes, 'all clusters of this site', all_nodes, 'max_nodes_per_site')

    def _check(self, name: str, nodes: int, whose: str, count: int, option: str) -> None:
        most: int = getattr(self, option)
        if count > most:
            raise TooManyNodes(
                f'Cannot have {nodes} nodes in cluster {name!r}: {whose} would have {count}, and '
                f'[clusters] {option} allows {most}.',
                option=option,
                count=count,
                most=most,
            )


#: The defaults of the options.
DEFAULT_LIMITS = NodeLimits()


def most_nodes(cluster: Cluster, operation: Operation) -> int:
    """Return the most nodes that an operation can lead a cluster to; pure.

    During a rolling replacement there can be more for a while, by ``max_surge``.
    """
    most = cluster.spec.count
    if operation.kind is OperationKind.ADOPT:
        most += 1
    if operation.rolls_back and cluster.former is not None:
        most = max(most, cluster.former.spec.count)
    return most
