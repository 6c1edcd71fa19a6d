"""What the driver is; each of its parts has a file of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.monitor import Monitor
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.values import (
    Bootstrap,
    Context,
    Drained,
    PlannedChange,
    Readiness,
)
from kiln.clusters.exceptions import ClusterDriverError, Problem
from kiln.clusters.models import Cluster, Node, Operation
from kiln.models import InjectedFile

# From beside this file, so that a copy of the folder works wherever it is.
from . import api, joining, leaving, planned, tending
from . import version as manifest
from .line import Refused, Silent
from .monitor import SwarmMonitor
from .opening import authority_of, view_of
from .scale import SwarmScaleManager
from .template_def import HOME, SwarmTemplateDefinition
from .view import NoManager, View


class Driver(NodeClusterDriver):
    """Builds Docker Swarms: groups of role ``control`` are managers, all others workers."""

    name = manifest.driver
    version = manifest.version
    provides = manifest.provides
    verbs = api.verbs
    # Nobody is told of a manager on its way: kiln leads each node to one.
    control_first = False

    def get_template_definition(self) -> SwarmTemplateDefinition:
        """Return the templates, and what fills them in."""
        return SwarmTemplateDefinition()

    def bootstrap(self, context: Context, cluster: Cluster, node: Node) -> Bootstrap:
        """Return an engine's configuration, and an authority that is good for it alone.

        No token to join with is among it: who reads what a machine was given cannot
        join, and cannot give an engine orders.
        """
        given = super().bootstrap(context, cluster, node)
        authority = authority_of(context, cluster)
        papers = authority.for_node(node)
        files = (
            _file('ca.pem', authority.certificate, 0o644),
            _file('authority.pem', papers.certificate + papers.key, 0o600),
        )
        return dataclasses.replace(given, files=(*given.files, *files))

    def is_ready(self, context: Context, cluster: Cluster, node: Node) -> Readiness:
        """Have a node join the swarm, and return whether a manager lists it as wanted."""
        try:
            return joining.ready(self.view(context, cluster), node)
        # Of a node that boots nothing has failed: it is asked again soon, and not later
        # and later.
        except (Silent, Refused, NoManager) as exc:
            return Readiness.not_yet(exc.reason)

    def drain(self, context: Context, cluster: Cluster, node: Node) -> Drained:
        """Have a node leave the swarm, its tasks first, and return whether it has."""
        try:
            return leaving.drained(self.view(context, cluster), node)
        except (Silent, Refused, NoManager) as exc:
            return Drained(done=False, reason=exc.reason)

    def tend(self, context: Context, cluster: Cluster) -> None:
        """Keep the list of a swarm as it is wanted, and say where it is not, or has no quorum."""
        tending.tend(self.view(context, cluster))

    def post_create_cluster(
        self, context: Context, cluster: Cluster, operation: Operation
    ) -> None:
        """Take off the list who died on the way."""
        self._tidy(context, cluster)

    def post_update_cluster(
        self, context: Context, cluster: Cluster, operation: Operation
    ) -> None:
        """Take off the list who is gone."""
        self._tidy(context, cluster)

    def _tidy(self, context: Context, cluster: Cluster) -> None:
        view = self.view(context, cluster)
        with view.manager() as manager:
            left = leaving.reap(view, manager, manager.peers())
        if left:
            names = ', '.join(one.hostname for one in left)
            raise ClusterDriverError(f'{names} is still in the list of the swarm.', retryable=True)

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[Problem]:
        """Say so where a swarm could not be, or would lose its quorum."""
        problems = tuple(super().validate(context, cluster, plan))
        return (*problems, *planned.problems(context, cluster, plan))

    def rotate_ca_certificate(self, context: Context, cluster: Cluster) -> None:
        """Begin to give each node a new certificate within the swarm; tasks go on."""
        with self.view(context, cluster).manager() as manager:
            manager.rotate_authority(manager.swarm())

    def get_monitor(self, context: Context, cluster: Cluster) -> Monitor:
        """Return what asks a manager how the swarm is."""
        return SwarmMonitor(context, cluster, self.view(context, cluster))

    def get_scale_manager(self, context: Context, cluster: Cluster) -> ScaleManager:
        """Return who lets those go first that have the least to do."""
        return SwarmScaleManager(context, cluster, self.view(context, cluster))

    def view(self, context: Context, cluster: Cluster) -> View:
        """Return a cluster as a call sees it; nobody is asked anything yet."""
        return view_of(context, cluster, self.template_definition.get_params)


def _file(name: str, content: bytes, mode: int) -> InjectedFile:
    return InjectedFile(path=f'{HOME}/{name}', content=content, mode=mode, owner='root')
