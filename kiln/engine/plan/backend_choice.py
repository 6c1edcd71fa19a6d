"""The backend that builds the machines of a group, as the cluster driver chooses it."""

from __future__ import annotations

import functools
from collections.abc import Callable

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.clusters.models import Cluster
from kiln.clusters.spec import NodeGroupSpec

#: Returns the backend of a group; None leaves it to the cluster, its template and the site.
BackendOf = Callable[[NodeGroupSpec], str | None]


def as_declared(group: NodeGroupSpec) -> str | None:
    """Return the backend that a group names."""
    return group.machine.compute_driver


def chosen_by(driver: ClusterDriver, cluster: Cluster) -> BackendOf:
    """Return the function that asks a driver; it raises ``ClusterDriverError``."""

    def backend_of(group: NodeGroupSpec) -> str | None:
        if not isinstance(driver, NodeClusterDriver):
            return as_declared(group)
        choose = functools.partial(driver.compute_driver_for, cluster=cluster, nodegroup=group)
        return call_driver(driver.name, 'compute_driver_for', choose)

    return backend_of
