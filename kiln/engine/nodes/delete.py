"""Node action DELETE: delete the machine of a node, and wait until it is gone."""

from __future__ import annotations

from kiln.clusters.models import NodeState
from kiln.engine.nodes.action import Due, NodeAction, forget, has_other_place
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind


class Delete(NodeAction):
    """Deletes a machine; its node is gone then, or is planned again at another place."""

    act = ActionKind.DELETE

    def begin(self, due: Due) -> None:
        deletion = self._compute(due.node).delete(due.compute_id, wait=True)
        self._report_when_done(due.node, deletion)

    def result(self, value: None, tx: Transaction, member: Member, desired: Desired) -> bool:
        if not has_other_place(member, desired):
            return forget(self._nodes, tx, member)
        tx.confirm_gone(member.node)
        tx.settle(ActionKind.DELETE, member.node)
        self._nodes.change(
            tx,
            member,
            state=NodeState.PLANNED,
            attempt=member.node.attempt + 1,
            compute_id=None,
            cause=None,
        )
        return False
