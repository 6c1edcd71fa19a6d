"""Checks of declared clusters that need nothing else."""

from __future__ import annotations

from kiln.cluster_drivers.selection.request import Wish
from kiln.clusters.exceptions import InvalidCluster, Problem
from kiln.clusters.models import Cluster
from kiln.clusters.spec import ClusterSpec


def with_nodes(spec: ClusterSpec) -> ClusterSpec:
    """Return a declared cluster, which has groups of nodes.

    :raises InvalidCluster: it has none.
    """
    if not spec.groups:
        message = 'the cluster has no nodes; give it nodegroups, or a template'
        raise InvalidCluster([Problem(message=message, path='nodegroups')])
    return spec


def check_driver(spec: ClusterSpec, there: Cluster) -> None:
    """Refuse a change of the driver through a declaration."""
    if spec.driver is None:
        return
    if not Wish.read(spec.driver, 'the cluster').admits(there.pin):
        message = (
            f'the cluster belongs to {there.pin.name} {there.pin.version}, not to {spec.driver}; '
            f'move it with migrate-driver first, or remove the driver'
        )
        raise InvalidCluster([Problem(message=message, path='driver')])
