"""Drivers that tell wrong things of nodes, or keep the wrong ones."""

from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.cluster_drivers.values import StatusReport
from tests.kit.cluster_animals import Right


class Counts(Monitor):
    metrics = (Metric('nodes', 'nodes', 'Existing nodes.'),)

    def pull(self):
        return {'nodes': len(self.context.nodes)}


class Counting(Right):
    """Correct: counts the nodes that kiln has."""

    def get_monitor(self, context, cluster):
        return Counts(context, cluster)


class Hasty(Right):
    """Shows the address of a node that has none so far."""

    def update_cluster_status(self, context, cluster):
        return StatusReport(outputs={'urls': [f'http://{one.address}/' for one in context.nodes]})


class Assuming(Right):
    """Takes it for granted that there is a node."""

    def update_cluster_status(self, context, cluster):
        return StatusReport(outputs={'leader': context.nodes[0].name})


class Constant(Right):
    """Measures what never changes."""

    def get_monitor(self, context, cluster):
        return Three(context, cluster)


class Three(Counts):
    def pull(self):
        return {'nodes': 3}


class Miscounting(Right):
    """Counts one node too few."""

    def get_monitor(self, context, cluster):
        return Fewer(context, cluster)


class Fewer(Counts):
    def pull(self):
        return {'nodes': len(self.context.nodes) - 1}


class Misleading(Right):
    """Sends users to another place."""

    def update_cluster_status(self, context, cluster):
        return StatusReport(outputs={'url': 'http://example.org/'})


class Heartless(Right):
    """Lets the oldest node go, too."""

    def get_scale_manager(self, context, cluster):
        return DefaultScaleManager(context, cluster)
