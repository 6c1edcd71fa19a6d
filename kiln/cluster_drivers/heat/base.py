"""HeatDriver: base of cluster drivers whose engine is Heat, with a stack for each cluster.

No state is kept between calls. The name of a stack follows from the cluster, so that a
repeated call meets the same stack; a tag has the mark of what was wanted last, so that a
list shows whether Heat has accepted the last request.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.heat.adoption import (
    check_adoptable,
    existing_of,
    find_stack,
    parameter_facts,
)
from kiln.cluster_drivers.heat.cluster_stack import ClusterStack, StackDefinition
from kiln.cluster_drivers.heat.definition import NODE_TYPES
from kiln.cluster_drivers.heat.errors import HeatUnavailable
from kiln.cluster_drivers.heat.ledger import ledger_of
from kiln.cluster_drivers.heat.names import mark_of
from kiln.cluster_drivers.heat.poller import HeatPoller
from kiln.cluster_drivers.heat.reports import report_of
from kiln.cluster_drivers.heat.secret_masking import masked
from kiln.cluster_drivers.heat.state import StackState
from kiln.cluster_drivers.known_nodes import KnownNodes
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.values import (
    Context,
    Existing,
    Loss,
    PlannedChange,
    Progress,
    StatusReport,
)
from kiln.clusters.exceptions import ClusterDriverError, MissingCapability, Problem
from kiln.clusters.models import Cluster, Node, OperationKind
from kiln.clusters.spec import ClusterTemplate, NodeGroupSpec, Strategy
from kiln.openstack.heat.requests import part
from kiln.openstack.heat.rows import StackRow
from kiln.plugins.extras import importing

if TYPE_CHECKING:
    from kiln.cluster_drivers.heat.client import HeatClient
    from kiln.cluster_drivers.heat.connections import Connections


class HeatDriver(ClusterDriver, KnownNodes):
    """Builds each cluster as a stack of Heat; a subclass says what the stack consists of."""

    #: The resources that are nodes: what is on one is lost with it.
    node_types: ClassVar[frozenset[str]] = NODE_TYPES
    #: Shared by all drivers of a process, as the connections are.
    poller: HeatPoller = HeatPoller()
    connections: Connections | None = None
    _definition: StackDefinition | None = None

    @abc.abstractmethod
    def get_template_definition(self) -> StackDefinition:
        """Return what makes the stacks, not loaded so far."""

    @classmethod
    def open(cls, *, overrides: Path | None = None) -> Self:
        """Return the driver with its template read and checked."""
        driver = super().open()
        driver._definition = driver.get_template_definition()
        driver._definition.load(overrides=overrides)
        return driver

    @property
    def template_definition(self) -> StackDefinition:
        """The definition in use: read, checked, the same for all calls."""
        if self._definition is None:
            self._definition = self.get_template_definition()
            self._definition.load()
        return self._definition

    def planned(
        self, context: Context, cluster: Cluster, remove: Sequence[str] = ()
    ) -> StackState:
        """Return the state with which the cluster's definition is made; pure.

        The same for each call about one change, so that a repeated one makes the same stack.

        :param remove: The nodes that a user named.
        :raises ClusterDriverError: there is no such node, or the template chooses them.
        """
        ledger = self.template_definition.planned(cluster, remove)
        return dataclasses.replace(StackState.read(cluster.driver_state), nodes=ledger.write())

    def known_nodes(self, cluster: Cluster) -> Sequence[Node]:
        """Return the nodes of the ledger; none where the template chooses its nodes."""
        return ledger_of(cluster).counted(cluster.spec)

    # ---- changes ---------------------------------------------------------------------

    def create_cluster(
        self, context: Context, cluster: Cluster, cluster_create_timeout: float
    ) -> StatusReport:
        """Create the stack; take the existing one if the call is repeated."""
        return self._applied(context, cluster, timeout_s=cluster_create_timeout)

    def update_cluster(
        self,
        context: Context,
        cluster: Cluster,
        scale_manager: ScaleManager | None = None,
        rollback: bool = False,
    ) -> StatusReport:
        """Bring the stack to what the cluster is to be, which a rollback is, too."""
        return self._applied(context, cluster)

    def resize_cluster(
        self,
        context: Context,
        cluster: Cluster,
        *,
        nodegroup: NodeGroupSpec,
        node_count: int,
        nodes_to_remove: Sequence[str] = (),
    ) -> StatusReport:
        """Bring the stack to another number of nodes."""
        return self._applied(context, cluster, remove=nodes_to_remove)

    def upgrade_cluster(
        self,
        context: Context,
        cluster: Cluster,
        *,
        cluster_template: ClusterTemplate,
        nodegroups: Sequence[NodeGroupSpec],
        strategy: Strategy,
    ) -> StatusReport:
        """Bring the stack to other values; Heat replaces or rebuilds what they are about."""
        return self._applied(context, cluster)

    def delete_cluster(self, context: Context, cluster: Cluster) -> StatusReport:
        """Delete the stack, whatever it does now; success if it is gone."""
        stack = self._stack(context, cluster)
        former = stack.placed()
        row = stack.found()
        if former.adopting and row is None:
            # No change of the stack that existed was accepted: it is not the cluster's.
            return StatusReport(progress=Progress.COMPLETE)
        state = dataclasses.replace(
            former.begun(),
            id=row.id if row else former.id,
            leaving=True,
            absent_since=former.absent_since,
        )
        if row is not None:
            stack.delete(row)
        return StatusReport(progress=Progress.IN_PROGRESS, driver_state=state.write())

    def _applied(
        self,
        context: Context,
        cluster: Cluster,
        *,
        remove: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> StatusReport:
        """Bring the stack to what the cluster is to be; create a missing one."""
        stack = self._planned_stack(context, cluster, remove)
        definition = stack.definition()
        mark = stack.mark(definition)
        state = stack.placed()
        row = self._standing(stack, creating=timeout_s is not None)
        with masked(definition):
            if row is None:
                row = stack.create(definition, mark, timeout_s or 0.0)
        if row.action == 'DELETE':
            raise _being_deleted(row)
        is_theirs = state.mark == mark and state.is_overridden(row)
        # Not for a repeated call about the same change: Heat would begin it again.
        if mark_of(row.tags) != mark or row.status == 'FAILED' or is_theirs:
            stack.update(row, definition, mark)
        images = _images(context, cluster)
        fresh = dataclasses.replace(state.begun(), id=row.id, mark=mark, images=images)
        return StatusReport(
            progress=Progress.IN_PROGRESS, driver_handle=row.name, driver_state=fresh.write()
        )

    def _standing(self, stack: ClusterStack, *, creating: bool) -> StackRow | None:
        """Return the stack that a change is about; None if it is to be created."""
        if stack.state.adopting:
            return stack.existing()
        # A creation that is repeated finds its stack by the name that it tries to create.
        return stack.found() if stack.state.name or not creating else None

    # ---- reports ---------------------------------------------------------------------

    def update_cluster_status(self, context: Context, cluster: Cluster) -> StatusReport:
        """Report how far Heat is, from the list of all stacks of the site."""
        try:
            return report_of(self._stack(context, cluster))
        except HeatUnavailable as exc:
            return StatusReport(progress=Progress.UNKNOWN, reason=exc.reason)

    # ---- checks ----------------------------------------------------------------------

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[Problem]:
        """Return the problems in what the cluster gives to the template, and in named nodes."""
        found = dict.fromkeys(self.template_definition.value_problems(context, cluster))
        if plan.named and not found:
            try:
                self.planned(context, cluster, plan.named)
            except ClusterDriverError as exc:
                return (Problem(message=str(exc)),)
        return tuple(found)

    def preview_cluster(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[str]:
        """Return what Heat foresees: first the nodes that a change would replace."""
        if plan.kind not in _PREVIEWED:
            return ()
        stack = self._planned_stack(context, cluster, plan.named)
        former = stack.placed().images
        row = self._standing(stack, creating=False)
        if row is None:
            return (f'Heat: a new stack, {stack.name}',)
        found = stack.preview(row)
        images = _images(context, cluster)
        # Heat does not tell what it would change of a server that it keeps.
        rebuilds = any(former[group] != images.get(group, former[group]) for group in former)
        losses = found.losses(self.node_types, rebuilds=rebuilds)
        return (*map(Loss, losses), *found.lines())

    def find_existing(self, context: Context, cluster: Cluster, reference: str) -> Existing:
        """Return what a cluster is created with that goes on with a stack, and what changes.

        The stack keeps its name and id. One that is deleted, failed, changed at the moment,
        nested or of another cluster is refused.
        """
        if self.template_definition.planned(cluster, ()).nodes:
            raise MissingCapability(
                f'Cluster driver {self.name} would replace nodes of a stack that it has not made: '
                f'it numbers them itself.',
                'Name a driver whose template chooses its nodes, or one of nodes.',
            )
        client = self._client(context)
        row = find_stack(client, reference)
        check_adoptable(row)
        shown = part(client.shown(row.name, row.id, 'the parameters', outputs=False), 'parameters')
        facts: list[str] = []
        # A value that is missing is a problem of the cluster, which is reported with all others.
        with contextlib.suppress(ClusterDriverError):
            definition = self.template_definition.extract_definition(context, cluster)
            facts += parameter_facts(shown, definition)
        return existing_of(client, row, facts)

    # ---- Heat ------------------------------------------------------------------------

    def _client(self, context: Context) -> HeatClient:
        if context.credentials is None:
            raise ClusterDriverError(
                f'Cluster driver {self.name} needs credentials for Heat.',
                'Name their secret as credentials of the cluster, or in [secrets] credentials.',
            )
        connections = self.connections or _shared_connections()
        return connections.client(context.secrets.get(context.credentials))

    def _stack(self, context: Context, cluster: Cluster) -> ClusterStack:
        return ClusterStack(
            client=self._client(context),
            poller=self.poller,
            template=self.template_definition,
            context=context,
            cluster=cluster,
        )

    def _planned_stack(
        self, context: Context, cluster: Cluster, remove: Sequence[str]
    ) -> ClusterStack:
        state = self.planned(context, cluster, remove)
        return self._stack(context, dataclasses.replace(cluster, driver_state=state.write()))


#: Kinds of changes that bring a stack to another definition.
_PREVIEWED = frozenset(
    {OperationKind.CREATE, OperationKind.UPDATE, OperationKind.RESIZE, OperationKind.UPGRADE}
)


def _images(context: Context, cluster: Cluster) -> dict[str, str | None]:
    groups = (group.name for group in cluster.spec.groups)
    return {name: context.effective(cluster, name).machine.image for name in groups}


@functools.cache
def _shared_connections() -> Connections:
    """Return the connections of this process, opened by the first call that needs them."""
    with importing('Cannot reach Heat', ClusterDriverError):
        from kiln.cluster_drivers.heat.connections import Connections
    return Connections()


def _being_deleted(row: StackRow) -> ClusterDriverError:
    if row.status == 'FAILED':
        return ClusterDriverError(
            f'Cannot change stack {row.name}: its deletion has begun, and failed: {row.reason}',
            'Delete the cluster again.',
        )
    return HeatUnavailable(
        f'Cannot create stack {row.name}: the former one of the name is being deleted.',
        'Nothing to do: kiln tries again.',
    )
