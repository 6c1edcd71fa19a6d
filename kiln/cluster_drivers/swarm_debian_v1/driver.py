"""The driver class; each of its parts has its own file."""

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

# Relative imports, so that a copy of the folder works anywhere.
from . import api, joining, leaving, planned, tending
from . import version as manifest
from .line import Refused, Silent
from .monitor import SwarmMonitor
from .scale import SwarmScaleManager
from .template_def import HOME, SwarmTemplateDefinition
from .view import NoManager, View, authority_of, view_of


class Driver(NodeClusterDriver):
    """Builds Docker Swarms: groups of role ``control`` are managers, all others workers.

    A swarm works only while a majority of its managers does, so plans with an even number of
    managers, or with changes that would cost the majority, are refused; so is the reboot or
    rebuild of the only manager. A swarm that has lost its majority is reported, but not
    recovered: for that a user runs the verb ``recover``. Nodes run Debian.
    """

    name = manifest.driver
    version = manifest.version
    provides = manifest.provides
    verbs = api.verbs
    # Machines need no address of a manager: kiln makes each node join.
    control_first = False
    # The gossip of all nodes and the traffic of their networks; only managers serve the swarm.
    open_ports = ('7946/tcp', '7946/udp', '4789/udp')
    control_ports = ('2377/tcp',)

    def get_template_definition(self) -> SwarmTemplateDefinition:
        return SwarmTemplateDefinition()

    def bootstrap(self, context: Context, cluster: Cluster, node: Node) -> Bootstrap:
        """Return an engine's configuration, and a certificate authority for this engine only.

        It contains no join token: a reader of a machine's files can neither join the
        swarm nor control an engine.
        """
        given = super().bootstrap(context, cluster, node)
        papers = self.view(context, cluster).papers(node)
        files = (
            _file('ca.pem', authority_of(context, cluster).certificate, 0o644),
            _file('authority.pem', papers.certificate + papers.key, 0o600),
        )
        return dataclasses.replace(given, files=(*given.files, *files))

    def is_ready(self, context: Context, cluster: Cluster, node: Node) -> Readiness:
        """Make a node join the swarm; return READY once a manager lists it as desired."""
        try:
            return joining.ready(self.view(context, cluster), node)
        # A booting node has not failed: return "not ready", so that it is polled again soon
        # and without a growing delay.
        except (Silent, Refused, NoManager) as exc:
            return Readiness.not_yet(exc.reason)

    def drain(self, context: Context, cluster: Cluster, node: Node) -> Drained:
        """Move a node's tasks away and remove it from the swarm; return done once removed."""
        try:
            return leaving.drained(self.view(context, cluster), node)
        except (Silent, Refused, NoManager) as exc:
            return Drained(done=False, reason=exc.reason)

    def tend(self, context: Context, cluster: Cluster) -> None:
        """Keep the nodes of the swarm as desired; report deviations and a missing quorum."""
        tending.tend(self.view(context, cluster))

    def post_create_cluster(
        self, context: Context, cluster: Cluster, operation: Operation
    ) -> None:
        """Remove nodes from the swarm that died during the creation."""
        self._tidy(context, cluster)

    def post_update_cluster(
        self, context: Context, cluster: Cluster, operation: Operation
    ) -> None:
        """Remove deleted nodes from the swarm."""
        self._tidy(context, cluster)

    def _tidy(self, context: Context, cluster: Cluster) -> None:
        view = self.view(context, cluster)
        with view.manager() as manager:
            left = leaving.reap(view, manager, manager.peers())
        if left:
            names = ', '.join(one.hostname for one in left)
            raise ClusterDriverError(f'{names} is still in the swarm.', retryable=True)

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[Problem]:
        """Report a swarm that is impossible, or that would lose its quorum."""
        problems = tuple(super().validate(context, cluster, plan))
        return (*problems, *planned.problems(context, cluster, plan))

    def rotate_ca_certificate(self, context: Context, cluster: Cluster) -> None:
        """Start to renew the swarm certificate of each node; tasks continue."""
        with self.view(context, cluster).manager() as manager:
            manager.rotate_authority(manager.swarm())

    def get_monitor(self, context: Context, cluster: Cluster) -> Monitor:
        return SwarmMonitor(context, cluster, self.view(context, cluster))

    def get_scale_manager(self, context: Context, cluster: Cluster) -> ScaleManager:
        """Return the scale manager that removes the least loaded nodes first."""
        return SwarmScaleManager(context, cluster, self.view(context, cluster))

    def view(self, context: Context, cluster: Cluster) -> View:
        """Return the view of a cluster for one call; send no request."""
        return view_of(context, cluster, self.template_definition.get_params)


def _file(name: str, content: bytes, mode: int) -> InjectedFile:
    return InjectedFile(path=f'{HOME}/{name}', content=content, mode=mode, owner='root')
