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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.heat.definition import NODE_TYPES, hidden
from kiln.cluster_drivers.heat.errors import HeatUnavailable, StackExists, StackNotFound
from kiln.cluster_drivers.heat.mappings import Definition
from kiln.cluster_drivers.heat.names import belongs, mark_of, stack_name, tags, wanted_mark
from kiln.cluster_drivers.heat.poller import HeatPoller
from kiln.cluster_drivers.heat.rows import StackRow, reason_of
from kiln.cluster_drivers.heat.state import CHANGE_TRIES, Meaning, StackState, meaning
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.values import Context, PlannedChange, Progress, StatusReport
from kiln.clusters.exceptions import ClusterDriverError, Problem
from kiln.clusters.models import Cluster, OperationKind
from kiln.clusters.spec import ClusterTemplate, NodeGroupSpec, Strategy
from kiln.plugins.extras import importing

if TYPE_CHECKING:
    from kiln.cluster_drivers.heat.client import HeatClient
    from kiln.cluster_drivers.heat.connections import Connections


class StackDefinition(Protocol):
    """What makes the stacks of a driver: a template with mappings, or a generator."""

    def load(self, *, overrides: Path | None = None) -> None:
        """Read and check what the stacks are made of."""

    def extract_definition(self, context: Context, cluster: Cluster) -> Definition:
        """Return all that makes the stack of a cluster."""

    def get_outputs(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outputs of a cluster from those of its stack."""

    def missed(self, cluster: Cluster, outputs: Mapping[str, Any]) -> str:
        """Return what a stack that Heat calls complete is not, by its outputs; empty if it is."""
        return ''

    def value_problems(self, context: Context, cluster: Cluster) -> Iterable[Problem]:
        """Return the problems in what a cluster gives to the template."""


class HeatDriver(ClusterDriver):
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
        if remove:
            raise ClusterDriverError(
                f'The template of {self.name} chooses itself which nodes it removes.', 'Name none.'
            )
        return StackState.read(cluster.driver_state)

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
        client = self._client(context)
        row = self._found(client, context, cluster)
        former = StackState.read(cluster.driver_state)
        state = StackState(id=row.id if row else former.id, leaving=True, nodes=former.nodes)
        if row is not None:
            self._delete(client, context, row)
        return StatusReport(progress=Progress.IN_PROGRESS, driver_state=state.write())

    def _applied(
        self,
        context: Context,
        cluster: Cluster,
        *,
        remove: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> StatusReport:
        state = self.planned(context, cluster, remove)
        cluster = dataclasses.replace(cluster, driver_state=state.write())
        client, definition = self._client(context), self._made(context, cluster)
        mark = wanted_mark(cluster, definition.template, definition.files, definition.shown)
        limit_s = cluster.spec.create_timeout_s if timeout_s is None else timeout_s
        row = self._found(client, context, cluster) if timeout_s is None else None
        with _masked(definition):
            if row is None:
                row = self._created(client, context, cluster, definition, mark, limit_s)
            if row.action == 'DELETE':
                raise _being_deleted(row)
            # A repeated call about the same change; Heat would begin it again.
            if mark_of(row.tags) != mark or row.status == 'FAILED':
                self._update(client, context, cluster, row, definition, mark)
        fresh = StackState(id=row.id, mark=mark, nodes=state.nodes)
        return StatusReport(
            progress=Progress.IN_PROGRESS, driver_handle=row.name, driver_state=fresh.write()
        )

    def _created(
        self,
        client: HeatClient,
        context: Context,
        cluster: Cluster,
        definition: Definition,
        mark: str,
        limit_s: float,
    ) -> StackRow:
        """Create the stack; return it, or the one that has its name if it is the cluster's."""
        name, own_tags = stack_name(context.site, cluster.id), tags(context.site, cluster, mark)
        try:
            with self.poller.changing(client, context.site, name):
                return client.create(name, definition, own_tags, limit_s)
        except StackExists as exc:
            row = client.named(name)
            if row is None:
                # It has gone meanwhile, or another process is creating it.
                raise HeatUnavailable(exc.reason, 'Nothing to do: kiln tries again.') from exc
            if not self._is_own(row, context, cluster):
                raise ClusterDriverError(
                    f'Cannot create stack {name}: stack {row.id} of somebody else has the name.',
                    'Delete or rename it, or give this site another name.',
                ) from None
            return row

    def _update(
        self,
        client: HeatClient,
        context: Context,
        cluster: Cluster,
        row: StackRow,
        definition: Definition,
        mark: str,
    ) -> None:
        with self.poller.changing(client, context.site, row.name):
            client.update(row.name, row.id, definition, tags(context.site, cluster, mark))

    def _delete(self, client: HeatClient, context: Context, row: StackRow) -> None:
        changing = self.poller.changing(client, context.site, row.name)
        with contextlib.suppress(StackNotFound), changing:
            client.delete(row.name, row.id)

    # ---- reports ---------------------------------------------------------------------

    def update_cluster_status(self, context: Context, cluster: Cluster) -> StatusReport:
        """Report how far Heat is, from the list of all stacks of the site."""
        state, name = StackState.read(cluster.driver_state), stack_name(context.site, cluster.id)
        client = self._client(context)
        try:
            row = self.poller.row(client, context.site, name)
            if row is None:
                # The list proves nothing: its tags can have been changed.
                row = self._found(client, context, cluster)
            return self._reported(client, context, cluster, state, row)
        except HeatUnavailable as exc:
            return StatusReport(progress=Progress.UNKNOWN, reason=exc.reason)

    def _reported(
        self,
        client: HeatClient,
        context: Context,
        cluster: Cluster,
        state: StackState,
        row: StackRow | None,
    ) -> StatusReport:
        found = meaning(row, state)
        if row is None or found is Meaning.ABSENT:
            return _absent(state, stack_name(context.site, cluster.id))
        match found:
            case Meaning.WORKING:
                return _working(f'Heat works on stack {row.name}: {row.state}.', state)
            case Meaning.REST:
                why = self._why(client, context, cluster, row)
                return _working(f'{why} kiln tries again.', state.rested())
            case Meaning.REPEAT:
                return self._repeated(client, context, cluster, state, row)
            case Meaning.DONE:
                return self._done(client, context, cluster, state, row)
            case Meaning.ALIEN:
                why = (
                    f'Stack {row.name} is {row.state}, and is not as kiln left it: somebody else '
                    f'has changed it. Update the cluster to take it back.'
                )
        if found is Meaning.FAILED:
            why = self._why(client, context, cluster, row)
        return StatusReport(progress=Progress.FAILED, reason=why)

    def _done(
        self,
        client: HeatClient,
        context: Context,
        cluster: Cluster,
        state: StackState,
        row: StackRow,
    ) -> StatusReport:
        outputs, reason, missed = None, '', ''
        try:
            found = self.poller.detail(row, client.outputs)
            outputs = self.template_definition.get_outputs(found)
            missed = self.template_definition.missed(cluster, found)
        # Heat has been seen to list a stack for hours that it could not show.
        except ClusterDriverError as exc:
            reason = f'The outputs are unknown. {exc.reason}'
        if missed:
            return self._missed(client, context, cluster, state, row, missed)
        return StatusReport(
            progress=Progress.COMPLETE,
            reason=reason,
            driver_state=dataclasses.replace(state, settled=True, tries=0, rest=0).write(),
            outputs=outputs,
        )

    def _missed(
        self,
        client: HeatClient,
        context: Context,
        cluster: Cluster,
        state: StackState,
        row: StackRow,
        missed: str,
    ) -> StatusReport:
        """Send the last request again if what it made is not what was wanted."""
        why = f'Stack {row.name} is {row.state}, and is not as it was wanted. {missed}'
        if state.settled or state.tries >= CHANGE_TRIES:
            return StatusReport(progress=Progress.FAILED, reason=f'{why} Update the cluster.')
        self._resend(client, context, cluster, state, row)
        return _working(f'{why} kiln has tried again.', state.repeated())

    def _repeated(
        self,
        client: HeatClient,
        context: Context,
        cluster: Cluster,
        state: StackState,
        row: StackRow,
    ) -> StatusReport:
        """Send the last request again; the report has what Heat says until then."""
        why = self._why(client, context, cluster, row)
        if state.leaving:
            self._delete(client, context, row)
        else:
            self._resend(client, context, cluster, state, row)
        return _working(f'{why} kiln has tried again.', state.repeated())

    def _resend(
        self,
        client: HeatClient,
        context: Context,
        cluster: Cluster,
        state: StackState,
        row: StackRow,
    ) -> None:
        definition = self._made(context, cluster)
        with _masked(definition):
            self._update(client, context, cluster, row, definition, state.mark)

    def _why(self, client: HeatClient, context: Context, cluster: Cluster, row: StackRow) -> str:
        """Return why a stack is as it is, down to the resources that failed."""
        failed = []
        if row.status == 'FAILED':
            # Without them, the reason of the stack itself is left.
            with contextlib.suppress(ClusterDriverError):
                failed = list(self.poller.detail(row, client.failures))
        secrets: tuple[str, ...] = ()
        with contextlib.suppress(ClusterDriverError):
            secrets = self._made(context, cluster).secrets
        return hidden(reason_of(row, failed), secrets)

    # ---- checks ----------------------------------------------------------------------

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[Problem]:
        """Return the problems in what the cluster gives to the template."""
        return tuple(dict.fromkeys(self.template_definition.value_problems(context, cluster)))

    def preview_cluster(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[str]:
        """Return what Heat foresees: first the nodes that a change would replace."""
        if plan.kind not in _PREVIEWED:
            return ()
        state = self.planned(context, cluster, plan.named)
        cluster = dataclasses.replace(cluster, driver_state=state.write())
        client, definition = self._client(context), self._made(context, cluster)
        row = self._found(client, context, cluster)
        if row is None:
            return (f'Heat: a new stack, {stack_name(context.site, cluster.id)}',)
        mark = wanted_mark(cluster, definition.template, definition.files, definition.shown)
        own_tags = tags(context.site, cluster, mark)
        with _masked(definition):
            found = client.preview(row.name, row.id, definition, own_tags)
        return tuple(found.lines(self.node_types))

    # ---- Heat ------------------------------------------------------------------------

    def _client(self, context: Context) -> HeatClient:
        if context.credentials is None:
            raise ClusterDriverError(
                f'Cluster driver {self.name} needs credentials for Heat.',
                'Name their secret as credentials of the cluster, or in [secrets] credentials.',
            )
        connections = self.connections or _shared_connections()
        return connections.client(context.secrets.get(context.credentials))

    def _found(self, client: HeatClient, context: Context, cluster: Cluster) -> StackRow | None:
        """Return the stack of a cluster now, by its name alone; None without one."""
        row = client.named(stack_name(context.site, cluster.id))
        if row is None or row.gone or not self._is_own(row, context, cluster):
            return None
        return row

    def _is_own(self, row: StackRow, context: Context, cluster: Cluster) -> bool:
        # Tags are lost by a change of somebody else that does not name them; the id is not.
        id_ = StackState.read(cluster.driver_state).id
        return belongs(row.tags, context.site, cluster) or id_ == row.id

    def _made(self, context: Context, cluster: Cluster) -> Definition:
        return self.template_definition.extract_definition(context, cluster)


#: Kinds of changes that bring a stack to another definition.
_PREVIEWED = frozenset(
    {OperationKind.CREATE, OperationKind.UPDATE, OperationKind.RESIZE, OperationKind.UPGRADE}
)


@functools.cache
def _shared_connections() -> Connections:
    """Return the connections of this process, opened by the first call that needs them."""
    with importing('Cannot reach Heat', ClusterDriverError):
        from kiln.cluster_drivers.heat.connections import Connections
    return Connections()


@contextlib.contextmanager
def _masked(definition: Definition) -> Iterator[None]:
    """Keep secrets out of errors: Heat quotes the values that it refuses."""
    try:
        yield
    except ClusterDriverError as exc:
        exc.args = (hidden(str(exc), definition.secrets),)
        exc.reason = hidden(exc.reason, definition.secrets)
        raise


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


def _absent(state: StackState, name: str) -> StatusReport:
    if state.leaving:
        return StatusReport(progress=Progress.COMPLETE)
    return StatusReport(progress=Progress.FAILED, reason=f'Heat has no stack {name}.')


def _working(reason: str, state: StackState) -> StatusReport:
    return StatusReport(progress=Progress.IN_PROGRESS, reason=reason, driver_state=state.write())
