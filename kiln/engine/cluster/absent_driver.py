"""A stand-in for a cluster driver that is missing, used to delete its clusters."""

from __future__ import annotations

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.clusters.exceptions import ClusterDriverUnknown
from kiln.clusters.models import Cluster, Operation, OperationKind


class AbsentDriver(NodeClusterDriver):
    """Drains no nodes and cannot build any: the driver that could is missing."""

    name = 'absent'
    version = '0.0.0'
    provides = ()

    def get_template_definition(self) -> TemplateDefinition:
        raise ClusterDriverUnknown('The cluster driver is missing, so nodes cannot be built.')


def deletes_without(cluster: Cluster, operation: Operation | None) -> bool:
    """Return whether a cluster can be worked on without its driver; pure.

    Only a deletion can: kiln has a record of the nodes it built itself. Resources that
    another engine built need the driver, unless the deletion is forced.
    """
    if operation is None or operation.kind is not OperationKind.DELETE:
        return False
    return not cluster.built_elsewhere or operation.forced
