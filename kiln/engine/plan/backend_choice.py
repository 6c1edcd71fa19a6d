"""The backend that builds the machines of a group, as the cluster driver chooses it."""

from __future__ import annotations

from collections.abc import Callable

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.discovery.contract import driver_errors
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
        with driver_errors(driver.name, f'choose the backend of group {group.name}'):
            name = driver.compute_driver_for(cluster=cluster, nodegroup=group)
            if name is not None and not isinstance(name, str):
                raise TypeError(f'the name of a backend or None is required, not {name!r}')
        return name

    return backend_of
