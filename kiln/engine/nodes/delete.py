"""Node action DELETE: delete the machine of a node, and wait until it is gone."""

from __future__ import annotations

from typing import Any

from kiln.clusters.models import Node, NodeState
from kiln.engine.nodes.action import NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.names import machine_id


class DeleteMachine(NodeAction):
    """Deletes a machine; its node is gone then, or is planned again at another place."""

    kind = ActionKind.DELETE

    def start(self, node: Node) -> Any:
        return self._compute(node).delete(machine_id(node), wait=True)

    def result(self, member: Member, value: None) -> None:
        if not self._state.desired.moves_elsewhere(member.node):
            self._nodes.forget(member)
            return
        self._tx.confirm_gone(member.node)
        self._tx.settle(ActionKind.DELETE, member.node)
        self._nodes.change(
            member,
            state=NodeState.PLANNED,
            attempt=member.node.attempt + 1,
            compute_id=None,
            cause=None,
        )
