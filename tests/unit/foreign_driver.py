"""A minimal cluster driver with its own engine."""

from kiln.cluster_drivers.base import ClusterDriver


class Foreign(ClusterDriver):
    """Valid but without function."""

    name = 'foreign_v1'
    version = '1.0.0'
    provides = (('*', '*', 'stack'),)

    def create_cluster(self, context, cluster, cluster_create_timeout):
        return None

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        return None

    def delete_cluster(self, context, cluster):
        return None
