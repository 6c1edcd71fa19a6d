"""The rounds of one cluster while this process holds its lease.

A round takes in results, decides what is next from what is written, writes both in one
commit behind the fence, and only then starts actions. So after a crash every action
that was started has its intent in the store.
"""

from __future__ import annotations

import abc
import logging
import math
from collections.abc import Callable, Iterable

from kiln.clusters.models import Cause, Operation, OperationState
from kiln.engine.cluster.held_lease import HeldLease
from kiln.engine.nodes.cluster_state import ClusterState
from kiln.engine.nodes.hook_gate import HookGate
from kiln.fairness.turns import on_behalf_of

LOG = logging.getLogger(__name__)


class Worker(abc.ABC):
    """The work on one cluster, whichever engine builds it. It is called by one thread at a time.

    :raises ClusterNotFound: the cluster was deleted meanwhile.
    """

    def __init__(self, state: ClusterState, held: HeldLease, hooks: HookGate) -> None:
        self.held = held
        #: The monotonic time of the next round, as of the end of the last one.
        self.due = math.inf
        self._parts = state.parts
        self._tx, self._nodes = state.tx, state.nodes
        self._hooks = hooks
        self._pin = self._tx.cluster.pin
        self.reload()

    # ---- called by the conductor -----------------------------------------------

    @property
    def idle(self) -> bool:
        """True if there is nothing to do, and nothing under way."""
        return (self._tx.operation is None or self._tx.cluster.paused) and not self._busy

    @property
    def moved(self) -> bool:
        """True if the cluster was moved to another driver since this work was started."""
        return self._tx.cluster.pin != self._pin

    @abc.abstractmethod
    def reload(self) -> None:
        """Read what others have written: the operation, the desired state, removed nodes.

        :raises ClusterNotFound: the cluster was deleted meanwhile.
        """

    def run_round(self, results: Iterable[Callable[[], object]]) -> None:
        """Take in results, and continue.

        :param results: functions that were passed to ``call_soon``.
        :raises LeaseLost: another conductor has the cluster now; nothing was started.
        """
        tx = self._tx
        tx.open()
        tx.follow_clock()
        self._nodes.follow_clock()
        for take in results:
            take()
        self._nodes.expire_timers()
        if self._may_go_on(tx.operation):
            self._go_on()
        tx.left = len(self._nodes)
        for node_id in tx.commit(self._parts.store, self.held.lease):
            LOG.error('Node %s already has another machine; the second one is left', node_id)
        if tx.ended:
            self._count(tx.under_way)
        for launch in tx.launches:
            # A process that was stopped after the commit can resume when another has the lease.
            self.held.ensure()
            with on_behalf_of(self._tx.cluster.id):
                launch()
        if tx.ended or tx.goal is not None:
            tx.load(tx.cluster, None)
            if not tx.removed:
                self.reload()
                self._nodes.wake_at(tx.monotonic)
        self.due = self._nodes.next_at

    def _count(self, ended: Operation) -> None:
        if (count := self._parts.count_operation) is not None:
            took_s = (ended.ended_at or 0.0) - ended.created_at
            count(ended.kind.value, ended.state.value, max(0.0, took_s))

    # ---- for each kind of work ---------------------------------------------------

    @property
    @abc.abstractmethod
    def _busy(self) -> bool:
        """True if an action was started that will report a result."""

    @abc.abstractmethod
    def _refusal(self) -> Cause | None:
        """Return why the operation cannot begin; None if it can."""

    @abc.abstractmethod
    def _go_on(self) -> None:
        """Run the next part of the operation."""

    @abc.abstractmethod
    def _miss(self) -> None:
        """End an operation that is not done by its deadline, or roll it back."""

    # ---- common parts --------------------------------------------------------------

    def _may_go_on(self, operation: Operation | None) -> bool:
        """Begin or end an operation if it is time; return whether there is work to continue."""
        tx = self._tx
        if operation is None or tx.ended:
            return False
        if operation.cancelled:
            tx.end(OperationState.CANCELLED)
            return False
        # A paused cluster cannot keep a deadline; resuming extends it.
        if tx.cluster.paused:
            return False
        if operation.deadline_at and tx.now >= operation.deadline_at:
            self._miss()
            return False
        if operation.state is OperationState.QUEUED:
            tx.begin()
            if (cause := self._refusal()) is not None:
                tx.end(OperationState.FAILED, cause)
                return False
        return self._hooks.may_begin(operation)
