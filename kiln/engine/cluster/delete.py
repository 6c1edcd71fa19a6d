"""The end of a deletion: proof that nothing is left, or abandoned resources.

Resources are abandoned only if the deletion is forced. Each one is then listed on the
receipt and reported as an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kiln.clusters.models import Cluster, NodeState, Operation
from kiln.engine.cluster.deletion_proof import DeletionProof
from kiln.engine.context import Backends
from kiln.engine.nodes.node_table import Member, NodeTable
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.names import build_key
from kiln.engine.results import ActionResult

#: Failures in a row after which a forced deletion gives something up.
TRIES = 3


class Deletion:
    """Completes the deletion of one cluster."""

    def __init__(
        self,
        cluster_id: str,
        backends: Backends,
        table: NodeTable,
        tell: Callable[[ActionResult], None],
    ) -> None:
        self._sweep = DeletionProof(cluster_id, backends, tell)
        self._nodes = table
        #: True if resources that cannot be deleted are abandoned.
        self.forced = False
        #: No poll begins before this time, by the monotonic clock.
        self._look_at = 0.0

    @property
    def busy(self) -> bool:
        """True while a poll for remaining resources is under way."""
        return self._sweep.busy

    @property
    def proven(self) -> bool:
        """True if nothing is left, as far as that can be proven."""
        return self._sweep.proven or (self.forced and self._sweep.in_vain >= TRIES)

    def take_up(self, operation: Operation | None) -> None:
        """Read whether the deletion is forced; if so, reset the count of failures."""
        self.forced = operation is not None and operation.forced
        if self.forced:
            self._nodes.renew()

    def gives_up(self, member: Member) -> bool:
        """Return whether the deletion of a node is no longer tried."""
        return self.forced and bool(member.node.doomed) and member.tries >= TRIES

    def is_due(self) -> bool:
        """Return whether all nodes that are left are abandoned."""
        return not self._nodes.busy and all(map(self.gives_up, self._nodes.members()))

    def could_end(self) -> bool:
        """Return whether it can end late: each node left was at least sent a delete."""
        return self.forced and all(
            self.gives_up(member) or member.node.state is NodeState.DELETING
            for member in self._nodes.members()
        )

    def may_look(self, moment: float) -> bool:
        """Return whether a poll is due and none is under way."""
        return not self.busy and moment >= self._look_at

    def look(self, tx: Transaction, names: Iterable[str]) -> None:
        """Poll the backends for remaining resources, after the commit."""
        # A backend that does not answer for a node does not answer for the rest either.
        silent = {member.node.backend for member in self._nodes.members()}
        asked = [name for name in names if name not in silent]
        self._sweep.busy = True
        tx.launches.append(lambda: self._sweep.look(asked))

    def learn(self, news: ActionResult, tx: Transaction, *, settle_s: float) -> bool:
        """Take in what was found; return whether to poll once more, after ``settle_s``."""
        again = self._sweep.learn(news, tx)
        # Deletions take time, and so does the recovery of a backend that did not answer.
        self._look_at = tx.moment + settle_s if self._sweep.in_vain else 0.0
        return again

    def bury(self, tx: Transaction, cluster: Cluster, *, driven: bool) -> None:
        """Remove the cluster from the store; record and report what is abandoned with it.

        :param driven: its driver was present, so the resources of another engine are gone.
        """
        for member in self._nodes.members():
            node = member.node
            kind, name = 'server', node.compute_id
            if name is None:
                # A machine might exist, and can be found by its build key.
                kind, name = 'build', build_key(node)
            tx.abandon(node.backend, kind, name, node)
        for backend, amphora_id in self._sweep.left:
            tx.abandon(backend, 'server', amphora_id)
        if cluster.driver_handle is not None and not driven:
            tx.abandon(cluster.pin.name, 'handle', cluster.driver_handle)
        tx.bury(forced=self.forced)
