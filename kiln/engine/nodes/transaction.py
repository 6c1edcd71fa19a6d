"""The changes of one round of the engine: one commit, then the actions it starts."""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kiln.clock import Clock
from kiln.clusters.exceptions import ClusterChanged
from kiln.clusters.models import (
    ENGINE_KINDS,
    Aim,
    Cause,
    Cluster,
    Event,
    Holding,
    Lease,
    Node,
    Operation,
    OperationState,
    Step,
    StepState,
)
from kiln.db.batch import Batch
from kiln.db.store import Store
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.names import build_key

LOG = logging.getLogger(__name__)

#: The kinds of events that a log needs: something is not as it should be. The failed actions of
#: nodes, which end in ``-failed``, are too.
_WARNED = frozenset(
    {'abandoned', 'cluster-trouble', 'drain-given-up', 'node-unhealthy', 'outputs-unknown'}
)
#: The kind of the step that records a rollback.
ROLLBACK = 'rollback'
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_STEPS = uuid.UUID('5c1f3f0e-9a4d-4f0b-8a53-2d6f6f7a1e94')


class Transaction:
    """Gathers the changes of a round, and writes them in one commit; used for all rounds."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._clock = clock
        self.load(cluster, None)
        self.open()

    def load(self, cluster: Cluster, operation: Operation | None) -> None:
        """Continue from what the store has now."""
        #: The cluster and the operation under way, as they are to be written.
        self.cluster = self._stored_cluster = cluster
        self.operation = self._stored_operation = operation

    def open(self) -> None:
        """Begin a round, without changes."""
        #: Seconds since the epoch, and by the monotonic clock.
        self.now, self.monotonic = self._clock.time(), self._clock.monotonic()
        self.nodes: dict[str, Node] = {}
        #: What to start after the commit.
        self.launches: list[Callable[[], None]] = []
        #: True if this ends the operation.
        self.ended = False
        #: Nodes that kiln knows at the end of the round.
        self.left = 0
        #: True if this removes the cluster from the store, and if that is forced.
        self.removed = self._forced = False
        #: The new desired state, which is written if nobody else changed it meanwhile.
        self.goal: Aim | None = None
        self._deadline_at: float | None = None
        # When the operation was submitted by the clock before it was set back.
        self._asked_at: float | None = None
        self._accepted: dict[str, tuple[Node, str]] = {}
        self._steps: dict[str, Step] = {}
        self._holdings: list[Holding] = []
        self._events: list[Event] = []

    @property
    def under_way(self) -> Operation:
        """The operation under way, where there must be one."""
        assert self.operation is not None
        return self.operation

    def follow_clock(self) -> None:
        """Let the operation begin now that begins later, because the clock was set back.

        It would otherwise have more time than its user allowed.
        """
        operation = self.operation
        if operation is not None and operation.asked_at > self.now:
            self._asked_at = operation.asked_at
            self.operation = operation.asked(self.now)

    # ---- gathering -----------------------------------------------------------

    def event(
        self,
        kind: str,
        message: str,
        node: Node | None = None,
        facts: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """Record an event, for people and programs."""
        operation_id = self.operation.id if self.operation else None
        node_id = node.id if node else None
        self._events.append(
            Event(
                cluster_id=self.cluster.id, kind=kind, message=message, at=self.now,
                operation_id=operation_id, node_id=node_id, facts=facts,
            )
        )  # fmt: skip

    def begin(self) -> None:
        """Record that the operation has begun."""
        self.event('operation-started', f'{self.under_way.kind.value} has begun')
        self._move(OperationState.RUNNING, None, started_at=self.now)

    def wait_for(self, cause: Cause | None) -> None:
        """Record why the operation waits; without a cause, that it continues."""
        self._move(OperationState.WAITING if cause else OperationState.RUNNING, cause)

    def end(self, state: OperationState, cause: Cause | None = None) -> None:
        """Record that the operation has ended, and why it did not succeed."""
        self.ended = True
        self.event('operation-ended', f'{self.under_way.kind.value} {state.value}')
        self._move(state, cause, ended_at=self.now)

    def _move(self, state: OperationState, cause: Cause | None, **times: Any) -> None:
        operation = self.under_way
        # An unchanged state is not written again.
        if (operation.state, operation.cause) != (state, cause):
            self.operation = dataclasses.replace(operation, state=state, cause=cause, **times)

    def roll_back(self, goal: Aim, deadline_at: float, why: Cause) -> None:
        """Record that the operation failed and rolls back, by a new deadline."""
        self.goal = goal
        self._deadline_at = deadline_at
        self.journal(
            Step(
                id=f'{self.under_way.id}.{ROLLBACK}', operation_id=self.under_way.id,
                cluster_id=self.cluster.id, kind=ROLLBACK, state=StepState.DONE,
                started_at=self.now, ended_at=self.now, cause=why,
            )
        )  # fmt: skip

    def intend(self, kind: ActionKind, node: Node) -> None:
        """Record that an action is about to be started in a backend."""
        self._step(kind, node, StepState.INTENT, None)

    def settle(self, kind: ActionKind, node: Node, cause: Cause | None = None) -> None:
        """Record that the action was done; with a cause, that it failed for good."""
        self._step(kind, node, StepState.DONE if cause is None else StepState.FAILED, cause)

    def accept(self, node: Node, compute_id: str) -> None:
        """Record which machine is the node's."""
        self._accepted[node.id] = (node, compute_id)
        self._hold(node.backend, 'server', compute_id, node)

    def confirm_gone(self, node: Node) -> None:
        """Record that the backend has no machine with the id of the node's machine."""
        if node.compute_id is not None:
            self._hold(node.backend, 'server', node.compute_id, node, gone_at=self.now)

    def abandon(self, backend: str, kind: str, name: str, node: Node | None = None) -> None:
        """Record that a resource that cannot be deleted is abandoned; the receipt lists it."""
        self._hold(backend, kind, name, node)
        self.event(
            'abandoned', f'{kind} {name} of {backend} is abandoned; it might still exist', node,
            facts={'backend': backend, 'kind': kind, 'id': name},
        )  # fmt: skip

    def confirm_engine_done(self) -> None:
        """Record that the driver reports the deletion of all that its own engine made."""
        self._hold(self.cluster.pin.name, *self._of_engine(), None, gone_at=self.now)

    def abandon_engine(self) -> None:
        """Record that what the driver's own engine made is abandoned, if it made anything."""
        if self.cluster.built_elsewhere:
            self.abandon(self.cluster.pin.name, *self._of_engine())

    def _of_engine(self) -> tuple[str, str]:
        """Return the kind and the name of what the driver's own engine made, as a whole."""
        with_handle, without = ENGINE_KINDS
        handle = self.cluster.driver_handle
        return (with_handle, handle) if handle else (without, self.cluster.id)

    def _hold(
        self, backend: str, kind: str, name: str, node: Node | None, gone_at: float | None = None
    ) -> None:
        self._holdings.append(
            Holding(
                cluster_id=self.cluster.id, backend=backend, kind=kind, id=name,
                node_id=node.id if node else None, node_name=node.name if node else None,
                seen_at=self.now, gone_at=gone_at,
            )
        )  # fmt: skip

    def remove_cluster(self, *, forced: bool) -> None:
        """Remove the cluster from the store; with ``forced`` even if resources might be left."""
        self.removed, self._forced = True, forced

    def journal(self, step: Step) -> None:
        """Write a step."""
        self._steps[step.id] = step

    def _step(self, kind: ActionKind, node: Node, state: StepState, cause: Cause | None) -> None:
        # What arrives after the operation has ended is recorded in the node itself.
        if self.operation is None:
            return
        # The same id each time the action is repeated, and short enough for the column.
        step_id = str(uuid.uuid5(_STEPS, f'{self.operation.id}.{build_key(node)}.{kind.value}'))
        self.journal(
            Step(
                id=step_id,
                operation_id=self.operation.id,
                cluster_id=self.cluster.id,
                kind=kind.value,
                state=state,
                node_id=node.id,
                attempt=node.attempt,
                token=build_key(node),
                started_at=self.now,
                ended_at=None if state is StepState.INTENT else self.now,
                cause=cause,
            )
        )

    # ---- writing -------------------------------------------------------------

    def commit(self, store: Store, lease: Lease) -> set[str]:
        """Write all of it; return the ids of nodes that already have another machine.

        :raises LeaseLost: nothing was written, and nothing must be started.
        :raises ClusterChanged: nothing was written: the owner changed the cluster first.
        """
        rows = self.nodes or self._steps or self._holdings or self._events
        changed = self.operation is not self._stored_operation
        if not (rows or changed or self.goal or self.cluster is not self._stored_cluster):
            return set()
        with store.writing(lease) as batch:
            self._gather(batch)
            if self.operation is not None and changed:
                batch.operation(self.operation)
                if self._asked_at is not None:
                    batch.date_back(self.operation, self._asked_at)
            if self.operation is not None and self._deadline_at is not None:
                batch.put_off(self.operation, self._deadline_at)
            generation = self.cluster.generation
            if self.goal and not batch.change_aim(self.goal, generation=generation):
                raise ClusterChanged(
                    f'Cannot change cluster {self.cluster.id}: it was changed in the meantime.'
                )
            refused = {
                node.id
                for node, compute_id in self._accepted.values()
                if not batch.accept(node, compute_id)
            }
            if self.ended and not self._might_keep_more():
                room = max(self.left, self.cluster.spec.count)
                batch.give_back_room(self.cluster.generation, room)
            if self.removed:
                batch.bury(forced=self._forced)
        self._log_trouble()
        self.load(self.cluster, self.operation)
        return refused

    def _log_trouble(self) -> None:
        for event in self._events:
            if event.kind in _WARNED or event.kind.endswith('-failed'):
                LOG.warning('Cluster %s: %s', self.cluster.name, event.message)

    def _might_keep_more(self) -> bool:
        """Return True if there might be more nodes than are desired or known."""
        failed = self.under_way.state is not OperationState.SUCCEEDED
        return self.cluster.built_elsewhere and failed

    def _gather(self, batch: Batch) -> None:
        for node in self.nodes.values():
            batch.node(node)
        for step in self._steps.values():
            batch.step(step)
        for holding in self._holdings:
            batch.holding(holding)
        for event in self._events:
            batch.event(event)
        if self.cluster is not self._stored_cluster:
            batch.cluster(self.cluster)
