"""What the driver is; each of its parts has a file of its own."""

from __future__ import annotations

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.monitor import Monitor
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.values import Context, PlannedChange
from kiln.cluster_exceptions import Problem
from kiln.cluster_models import Cluster

# From beside this file, so that a copy of the folder works wherever it is.
from . import api
from . import version as manifest
from .monitor import ExampleMonitor
from .scale import ExampleScaleManager
from .template_def import ExampleTemplateDefinition


class Driver(NodeClusterDriver):
    """Builds clusters of nodes that each show a page."""

    name = manifest.driver
    version = manifest.version
    provides = manifest.provides
    verbs = api.verbs

    def get_template_definition(self) -> ExampleTemplateDefinition:
        """Return the templates, and what fills them in."""
        return ExampleTemplateDefinition()

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> tuple[Problem, ...]:
        """Say so where a cluster would have no node that keeps its state."""
        problems = tuple(super().validate(context, cluster, plan))
        groups = cluster.spec.groups
        if groups and not any(group.shape.count for group in groups):
            problems += (Problem(message='one node at least keeps the state', path='nodegroups'),)
        return problems

    def get_monitor(self, context: Context, cluster: Cluster) -> Monitor:
        """Return what counts the nodes that do their work."""
        return ExampleMonitor(context, cluster)

    def get_scale_manager(self, context: Context, cluster: Cluster) -> ScaleManager:
        """Return who never lets the node go that keeps the state."""
        return ExampleScaleManager(context, cluster)
