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

from kiln.clusters.models import Lease, Operation, OperationState
from kiln.engine.context import Parts
from kiln.engine.nodes.node_table import Member, NodeTable
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.results import ActionResult

LOG = logging.getLogger(__name__)


class Worker(abc.ABC):
    """The work on one cluster, whichever engine builds it. All calls come from one thread.

    :raises ClusterNotFound: the cluster was deleted meanwhile.
    """

    def __init__(
        self, parts: Parts, lease: Lease, table: NodeTable, tell: Callable[[ActionResult], None]
    ) -> None:
        self.lease = lease
        #: The monotonic time until which the lease is certainly held.
        self.sure_until = math.inf
        #: The monotonic time of the next round, as of the end of the last one.
        self.due = math.inf
        self._parts = parts
        self._tell = tell
        self._nodes = table
        self._cluster = parts.store.clusters.get(lease.scope)
        self._pin = self._cluster.pin
        self._operation: Operation | None = None

    # ---- called by the conductor -----------------------------------------------

    @property
    def idle(self) -> bool:
        """True if there is nothing to do, and nothing under way."""
        return (self._operation is None or self._cluster.paused) and not self._under_way

    @property
    def moved(self) -> bool:
        """True if the cluster was moved to another driver since this work was started."""
        return self._cluster.pin != self._pin

    @abc.abstractmethod
    def reload(self) -> None:
        """Read what others have written: the operation, the desired state, removed nodes.

        :raises ClusterNotFound: the cluster was deleted meanwhile.
        """

    def run_round(self, news: Iterable[ActionResult]) -> None:
        """Take in results, and continue.

        :raises LeaseLost: another conductor has the cluster now; nothing was started.
        """
        clock = self._parts.clock
        tx = Transaction(
            self.lease.scope, self._operation, now=clock.time(), moment=clock.monotonic()
        )
        self._learn(news, tx)
        due = self._nodes.take_due(tx.moment)
        if self._may_go_on(tx):
            self._go_on(tx, due)
        for node_id in tx.write(self._parts.store, self.lease):
            LOG.error('Node %s already has another machine; the second one is left', node_id)
        self._operation, self._cluster = tx.operation, tx.cluster or self._cluster
        for launch in tx.launches:
            self._check_sure()
            launch()
        ended = self._operation is not None and self._operation.state.ended
        if ended or tx.aim is not None:
            self._operation = None
            if not tx.buried:
                self.reload()
                self._nodes.wake_at(tx.moment)
        self.due = self._nodes.next_at

    # ---- for each kind of work ---------------------------------------------------

    @property
    @abc.abstractmethod
    def _under_way(self) -> bool:
        """True if an action was started that will report a result."""

    @abc.abstractmethod
    def _learn(self, news: Iterable[ActionResult], tx: Transaction) -> None:
        """Take in results."""

    @abc.abstractmethod
    def _go_on(self, tx: Transaction, due: list[Member]) -> None:
        """Run the next part of the operation."""

    @abc.abstractmethod
    def _miss(self, tx: Transaction, operation: Operation) -> None:
        """End an operation that is not done by its deadline, or roll it back."""

    # ---- common parts --------------------------------------------------------------

    def _may_go_on(self, tx: Transaction) -> bool:
        """Return whether there is work to continue; end an operation that is over."""
        operation = tx.operation
        if operation is None or operation.state.ended:
            return False
        if operation.cancelled:
            tx.end(OperationState.CANCELLED)
            return False
        # A paused cluster cannot keep a deadline; resuming extends it.
        if self._cluster.paused:
            return False
        if operation.deadline_at and tx.now >= operation.deadline_at:
            self._miss(tx, operation)
            return False
        return True

    def _check_sure(self) -> None:
        """Renew the lease if, by the time, it could have expired."""
        # A process that was stopped after the commit can resume when another has the lease.
        now, term_s = self._parts.clock.monotonic(), self._parts.settings.lease_s
        if now >= self.sure_until:
            self.lease = self._parts.store.leases.renew(self.lease, term_s)
            self.sure_until = now + term_s
