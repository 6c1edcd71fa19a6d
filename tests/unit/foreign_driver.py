"""A cluster driver with an engine of its own, as short as it can be."""

from kiln.cluster_drivers.base import ClusterDriver


class Foreign(ClusterDriver):
    """Right, and of no use."""

    name = 'foreign_v1'
    version = '1.0.0'
    provides = (('*', '*', 'stack'),)

    def create_cluster(self, context, cluster, cluster_create_timeout):
        return None

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        return None

    def delete_cluster(self, context, cluster):
        return None
