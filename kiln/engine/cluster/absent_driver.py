"""What stands in for a cluster driver that is gone: enough to delete, and no more."""

from __future__ import annotations

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.clusters.exceptions import ClusterDriverUnknown
from kiln.clusters.models import Cluster, Operation, OperationKind


class AbsentDriver(NodeClusterDriver):
    """Drains nobody, for nobody knows how, and can make nothing."""

    name = 'absent'
    version = '0.0.0'
    provides = ()

    def get_template_definition(self) -> TemplateDefinition:
        raise ClusterDriverUnknown('The cluster driver is gone, and with it what nodes are given.')


def deletes_without(cluster: Cluster, operation: Operation | None) -> bool:
    """Whether a cluster may be worked on though its driver cannot be had; pure.

    Only to be deleted: its nodes kiln knows itself. What another engine has built for it
    kiln does not, so that has to wait for the driver, unless it is to be given up.
    """
    if operation is None or operation.kind is not OperationKind.DELETE:
        return False
    return cluster.driver_handle is None or operation.forced
