"""The driver class; each of its parts has its own file."""

from __future__ import annotations

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.monitor import Monitor
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.values import Context, PlannedChange
from kiln.clusters.exceptions import Problem
from kiln.clusters.models import Cluster

# Relative imports, so that a copy of the folder works anywhere.
from . import api
from . import version as manifest
from .monitor import ExampleMonitor
from .scale import ExampleScaleManager
from .template_def import ExampleTemplateDefinition


class Driver(NodeClusterDriver):
    """Builds clusters of nodes that each show a page.

    The oldest node keeps the state, so scaling never removes it, and a cluster needs one
    node at least. The monitor counts the nodes that kiln has recorded, and sends them no
    request. Neither credentials nor the certificate of an authority can be rotated.
    """

    name = manifest.driver
    version = manifest.version
    provides = manifest.provides
    verbs = api.verbs
    #: What the conformance kit is to expect; nothing else imports it.
    bench = '.bench:Pages'

    def get_template_definition(self) -> ExampleTemplateDefinition:
        """Return the templates and the values for them."""
        return ExampleTemplateDefinition()

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> tuple[Problem, ...]:
        """Report a cluster without a node for its state."""
        problems = tuple(super().validate(context, cluster, plan))
        groups = cluster.spec.groups
        if groups and not any(group.shape.count for group in groups):
            problems += (
                Problem(message='at least one node must keep the state', path='nodegroups'),
            )
        return problems

    def get_monitor(self, context: Context, cluster: Cluster) -> Monitor:
        """Return the monitor that counts ready nodes."""
        return ExampleMonitor(context, cluster)

    def get_scale_manager(self, context: Context, cluster: Cluster) -> ScaleManager:
        """Return the scale manager that never removes the node with the state."""
        return ExampleScaleManager(context, cluster)
