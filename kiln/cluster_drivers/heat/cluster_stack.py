"""The stack of one cluster: how it is found, and the requests about it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from kiln.cluster_drivers.heat.adoption import check_adoptable
from kiln.cluster_drivers.heat.errors import HeatUnavailable, StackExists, StackNotFound
from kiln.cluster_drivers.heat.ledger import Ledger
from kiln.cluster_drivers.heat.mappings import Definition
from kiln.cluster_drivers.heat.names import (
    belongs,
    owner_of,
    stack_name,
    tags,
    wanted_mark,
)
from kiln.cluster_drivers.heat.poller import HeatPoller, News
from kiln.cluster_drivers.heat.secret_masking import hidden, masked
from kiln.cluster_drivers.heat.state import StackState
from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError, Problem
from kiln.clusters.models import Cluster
from kiln.openstack.heat.events import told
from kiln.openstack.heat.rows import Preview, StackRow, reason_of

if TYPE_CHECKING:
    from kiln.cluster_drivers.heat.client import HeatClient


class StackDefinition(Protocol):
    """What makes the stacks of a driver: a template with mappings, or a generator."""

    def load(self, *, overrides: Path | None = None) -> None:
        """Read and check what the stacks are made of."""

    def planned(self, cluster: Cluster, remove: Sequence[str]) -> Ledger:
        """Return the ledger of the nodes that a cluster is to have, without those that are named.

        Empty where the template chooses its nodes; then none can be named.
        """

    def extract_definition(self, context: Context, cluster: Cluster) -> Definition:
        """Return all that makes the stack of a cluster."""

    def get_outputs(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outputs of a cluster from those of its stack."""

    def missed(self, cluster: Cluster, outputs: Mapping[str, Any]) -> str:
        """Return what a stack that Heat calls complete is not, by its outputs; empty if it is."""
        return ''

    def value_problems(self, context: Context, cluster: Cluster) -> Iterable[Problem]:
        """Return the problems in what a cluster gives to the template."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClusterStack:
    """The stack of a cluster, for the requests of one call."""

    client: HeatClient
    poller: HeatPoller
    template: StackDefinition
    context: Context
    cluster: Cluster

    @property
    def name(self) -> str:
        """The name of the stack: of one that existed, or what follows from the cluster alone."""
        return self.state.name or stack_name(self.context.site, self.cluster.id)

    @property
    def state(self) -> StackState:
        """What the driver has kept of the stack."""
        return StackState.read(self.cluster.driver_state)

    def with_state(self, state: StackState) -> Self:
        """Return the same stack with another state."""
        cluster = dataclasses.replace(self.cluster, driver_state=state.write())
        return dataclasses.replace(self, cluster=cluster)

    def definition(self) -> Definition:
        """Return all that makes the stack.

        :raises ClusterDriverError: a value or secret is missing.
        """
        return self.template.extract_definition(self.context, self.cluster)

    def mark(self, definition: Definition) -> str:
        """Return the mark of the present change."""
        return wanted_mark(self.cluster, definition.template, definition.files, definition.shown)

    # ---- where it is -------------------------------------------------------------------

    def placed(self) -> StackState:
        """Return the state with the project and the region of the stack; those of now if unknown.

        :raises ClusterDriverError: the credentials lead to others, where it cannot be seen.
        """
        kept = self.state
        now = dataclasses.replace(
            kept,
            project=self.client.project_id() or kept.project,
            region=self.client.region or kept.region,
        )
        for what in ('project', 'region'):
            there, here = getattr(kept, what), getattr(now, what)
            if there and there != here:
                raise ClusterDriverError(
                    f'The stack of cluster {self.cluster.name} is in {what} {there}, and its '
                    f'credentials lead to {what} {here} now.',
                    f'Give it credentials of {what} {there}.',
                )
        return now

    # ---- find it -----------------------------------------------------------------------

    def listed(self) -> StackRow | None:
        """Return the stack as the last list of the site has it; None without one."""
        # A list alone proves nothing: the tags of a stack can have been changed.
        row = self.poller.row(self.client, self.context.site, self.name)
        return row if row is not None and self._is_own(row) else self.found()

    def found(self) -> StackRow | None:
        """Return the stack as Heat has it now; None without one."""
        row = self.client.named(self.name)
        if row is None or not self._is_own(row):
            return None
        return None if row.gone and not self.state.leaving else row

    def existing(self) -> StackRow:
        """Return the stack that existed before the cluster, which is to become its own.

        :raises ClusterDriverError: it is gone, or cannot become the cluster's.
        """
        row = self.client.with_id(self.state.id)
        if row is None or row.gone:
            raise ClusterDriverError(
                f'Cannot go on with stack {self.name}: it is gone.', 'Delete the cluster.'
            )
        if belongs(row.tags, self.context.site, self.cluster):
            # A creation that is repeated meets what the first call has begun.
            return row
        if row.status == 'IN_PROGRESS' and not owner_of(row.tags):
            raise HeatUnavailable(
                f'Cannot go on with stack {row.name}: it is {row.state}.',
                'Nothing to do: kiln tries again.',
            )
        check_adoptable(row)
        return row

    def _is_own(self, row: StackRow) -> bool:
        if belongs(row.tags, self.context.site, self.cluster):
            return True
        # Tags are lost by a change of somebody else that does not name them; the id is not.
        return self.state.id == row.id and not self.state.adopting and not owner_of(row.tags)

    # ---- change it ---------------------------------------------------------------------

    def create(self, definition: Definition, mark: str, left_s: float) -> StackRow:
        """Create the stack; return it, or the one that has its name if it is the cluster's.

        :param left_s: Seconds that the operation has left.
        """
        # kiln's own deadline ends the operation. With the little that a late repeat has left,
        # Heat would give up what the next operation goes on with.
        limit_s = max(left_s, self.cluster.spec.create_timeout_s)
        try:
            with self._changing():
                return self.client.create(self.name, definition, self._tags(mark), limit_s)
        except StackExists as exc:
            row = self.client.named(self.name)
            if row is None:
                # It has gone meanwhile, or another process is creating it.
                raise HeatUnavailable(exc.reason, 'Nothing to do: kiln tries again.') from exc
            if not self._is_own(row):
                raise ClusterDriverError(
                    f'Cannot create stack {self.name}: stack {row.id} of somebody else has the '
                    f'name.',
                    'Delete or rename it, or give this site another name.',
                ) from None
            return row

    def update(self, row: StackRow, definition: Definition, mark: str) -> None:
        """Bring the stack to a definition."""
        with masked(definition), self._changing():
            limit_s = self.cluster.spec.create_timeout_s
            self.client.update(row.name, row.id, definition, self._tags(mark), limit_s)

    def delete(self, row: StackRow) -> None:
        """Delete the stack, whatever it does now."""
        with contextlib.suppress(StackNotFound), self._changing():
            self.client.delete(row.name, row.id)

    def resend(self, row: StackRow) -> None:
        """Send the last request about the stack again."""
        if self.state.leaving:
            self.delete(row)
        else:
            self.update(row, self.definition(), self.state.mark)

    def _changing(self) -> contextlib.AbstractContextManager[None]:
        return self.poller.changing(self.client, self.context.site, self.name)

    def _tags(self, mark: str) -> list[str]:
        return tags(self.context.site, self.cluster, mark)

    # ---- read it -----------------------------------------------------------------------

    def preview(self, row: StackRow) -> Preview:
        """Return what the present change would do."""
        definition = self.definition()
        with masked(definition):
            own_tags = self._tags(self.mark(definition))
            return self.client.preview(row.name, row.id, definition, own_tags)

    def outputs(self, row: StackRow) -> Mapping[str, Any]:
        """Return the outputs of the stack, requested once for each change of its row."""
        return self.poller.detail(row, self.client.outputs)

    def news(self, row: StackRow) -> News:
        """Return what has happened to a stack in progress since the events that were told."""
        # It is not worth an error: the list has said that Heat is at work.
        with contextlib.suppress(ClusterDriverError):
            return self.poller.news(self.client, self.context.site, row, self.state.told)
        return News()

    def told(self, news: News) -> Sequence[str]:
        """Return what the events say, for people."""
        return list(told(news.events, self._hidden)) if news.events else ()

    def why(self, row: StackRow) -> str:
        """Return why the stack is as it is, down to the resources that failed."""
        failed = []
        if row.status == 'FAILED':
            # Without them, the reason of the stack itself is left.
            with contextlib.suppress(ClusterDriverError):
                failed = list(self.poller.detail(row, self.client.failures))
        return reason_of(row, failed, self._hidden)

    def _hidden(self, text: str) -> str:
        secrets: tuple[str, ...] = ()
        with contextlib.suppress(ClusterDriverError):
            secrets = self.definition().secrets
        return hidden(text, secrets)
