"""Node action DELETE: delete the machine of a node, and wait until it is gone."""

from __future__ import annotations

from kiln.clusters.models import NodeState
from kiln.engine.nodes.action import Due, NodeAction, forget, has_other_place
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.transaction import Entry
from kiln.engine.plan.desired import Wishes
from kiln.engine.plan.lifecycle import Act


class Delete(NodeAction):
    """Deletes a machine; its node is gone then, or is planned again at another place."""

    act = Act.DELETE

    def begin(self, due: Due) -> None:
        deletion = self._compute(due.node).delete(due.compute_id, wait=True)
        self._report_when_done(due.node, deletion)

    def result(self, value: None, entry: Entry, member: Member, wishes: Wishes) -> bool:
        if not has_other_place(member, wishes):
            return forget(self._roster, entry, member)
        entry.confirm_gone(member.node)
        entry.settle(Act.DELETE, member.node)
        self._roster.change(
            entry,
            member,
            state=NodeState.PLANNED,
            attempt=member.node.attempt + 1,
            compute_id=None,
            cause=None,
        )
        return False
