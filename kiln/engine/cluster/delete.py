"""The delete operation: removes all nodes, and ends with proof that nothing is left.

If the deletion is forced, resources that cannot be deleted are abandoned. Each one is then
listed on the receipt and reported as an event.
"""

from __future__ import annotations

from kiln.clusters.models import NodeState, OperationState
from kiln.engine.cluster.absent_driver import AbsentDriver
from kiln.engine.cluster.converge import Converge
from kiln.engine.cluster.deletion_proof import DeletionProof
from kiln.engine.health.machine_check import MachineCheck
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.names import build_key

#: Failures in a row after which a forced deletion gives something up.
TRIES = 3


class Delete(Converge):
    """Deletes a cluster."""

    def __init__(self, state: NodeClusterState, machines: MachineCheck) -> None:
        super().__init__(state, machines)
        self._proof = DeletionProof(state)
        if self._forced:
            self._nodes.renew()

    @property
    def busy(self) -> bool:
        return self._proof.busy or super().busy

    def next_action(self, member: Member) -> ActionKind:
        return ActionKind.REST if self._gives_up(member) else super().next_action(member)

    def finish(self) -> None:
        at_rest = not self._nodes.replan and not self._nodes.busy
        # Nodes that are left are abandoned.
        if not at_rest or not all(map(self._gives_up, self._nodes.members())):
            self._wait()
        elif not self._proof.complete and not (self._forced and self._proof.failures >= TRIES):
            # A backend that does not answer for a node does not answer for the rest either.
            silent = {member.node.backend for member in self._nodes.members()}
            self._proof.poll_when_due(self._nodes.backends - silent)
        elif self._state.hooks.may_end():
            self._end()

    def miss(self) -> None:
        """End the operation; a forced one succeeds if each node left was sent a delete."""
        if self._forced and all(
            self._gives_up(member) or member.node.state is NodeState.DELETING
            for member in self._nodes.members()
        ):
            self._end()
        else:
            super().miss()

    def _gives_up(self, member: Member) -> bool:
        """Return whether the deletion of a node is no longer tried."""
        return self._forced and bool(member.node.doomed) and member.tries >= TRIES

    def _end(self) -> None:
        """Remove the cluster from the store; record and report what is abandoned with it."""
        tx = self._tx
        tx.end(OperationState.SUCCEEDED)
        for member in self._nodes.members():
            node = member.node
            kind, name = 'server', node.compute_id
            if name is None:
                # A machine might exist, and can be found by its build key.
                kind, name = 'build', build_key(node)
            tx.abandon(node.backend, kind, name, node)
        for backend, amphora_id in self._proof.left:
            tx.abandon(backend, 'server', amphora_id)
        # Without its driver, the resources of another engine are left.
        if isinstance(self._state.driver, AbsentDriver):
            tx.abandon_engine()
        tx.remove_cluster(forced=self._forced)
