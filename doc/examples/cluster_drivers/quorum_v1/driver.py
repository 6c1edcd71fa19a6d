"""The driver class; its rules, requests and parts have their own files."""

from __future__ import annotations

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.monitor import Monitor
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.values import (
    DRAINED,
    READY,
    Context,
    Drained,
    PlannedChange,
    Readiness,
    StatusReport,
    join_token,
)
from kiln.clusters.exceptions import Problem
from kiln.clusters.models import Cluster, Node

from . import members
from . import version as manifest
from .agent import Agent, answering
from .monitor import QuorumMonitor
from .scale import QuorumScaleManager
from .template_def import QuorumTemplateDefinition


class Driver(NodeClusterDriver):
    """Builds clusters of members that agree by majority; any ready member can lead another in.

    A member is given no address. It waits until the driver either lets it found the cluster
    or introduces it to a member; so the members boot all at once, and a machine that is
    built again is given the same as before.
    """

    name = manifest.driver
    version = manifest.version
    provides = manifest.provides  # pyright: ignore  # a property in the contract
    control_first = False
    #: Plays the machines for the kit; nothing else imports it.
    bench = '.bench:AgentBench'

    def get_template_definition(self) -> QuorumTemplateDefinition:
        """Return the templates and the values for them."""
        return QuorumTemplateDefinition()

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> tuple[Problem, ...]:
        """Report a cluster without members."""
        found = tuple(super().validate(context, cluster, plan))
        if not sum(group.shape.count for group in cluster.spec.groups):
            found += (Problem(message='a quorum has at least one member', path='nodegroups'),)
        return found

    def is_ready(self, context: Context, cluster: Cluster, node: Node) -> Readiness:
        """Return READY once the node is a member; until then, help it to become one."""
        agent = Agent(context, cluster, node)
        if agent.get('/member')['joined']:
            return READY
        if members.ready(context):
            leader = answering(context, cluster)
            # The leader admits the one machine that shows this token.
            leader.put(f'/members/{node.name}', {'token': join_token(context, node)})
            agent.put('/member', {'join': leader.node.address})
            return Readiness.not_yet(f'it joins {leader.node.name}')
        if members.founds(context, node):
            agent.put('/member', {'join': None})
            return Readiness.not_yet('it founds the cluster')
        return Readiness.not_yet('it waits for a member that it can join')

    def drain(self, context: Context, cluster: Cluster, node: Node) -> Drained:
        """Let a member hand over what it stores, unless the whole cluster goes."""
        if members.ending(context):
            return DRAINED
        left = Agent(context, cluster, node).put('/member', {'leave': True})['left']
        return DRAINED if left else Drained(done=False, reason='it hands over what it stores')

    def tend(self, context: Context, cluster: Cluster) -> None:
        """Let the members forget those that are gone, which would still count for a majority."""
        names = sorted(node.name for node in context.nodes)
        answering(context, cluster).put('/members', names)

    def rotate_credential(self, context: Context, cluster: Cluster) -> None:
        """Give every member the key that the site's store of secrets has now."""
        for node in members.ready(context):
            params = self.template_definition.get_params(context, cluster, node)
            key = context.secrets.get(params['key'])
            Agent(context, cluster, node).put('/key', key)

    def get_monitor(self, context: Context, cluster: Cluster) -> Monitor:
        """Return the monitor that asks a member."""
        return QuorumMonitor(context, cluster)

    def get_scale_manager(self, context: Context, cluster: Cluster) -> ScaleManager:
        """Return the scale manager that keeps a majority."""
        return QuorumScaleManager(context, cluster)

    def update_cluster_status(self, context: Context, cluster: Cluster) -> StatusReport:
        """Report the outputs of the templates, and the size of a majority."""
        outputs = self.template_definition.get_outputs(context, cluster)
        return StatusReport(outputs={**outputs, 'majority': members.majority(context)})
