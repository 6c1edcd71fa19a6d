"""Node actions REBOOT and REBUILD: reset a machine, which then joins again."""

from __future__ import annotations

from typing import Any

from kiln.clusters.models import NodeState
from kiln.engine.nodes.action import Due, NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind


class Reboot(NodeAction):
    """Reboots the machine of a node."""

    act = ActionKind.REBOOT

    def begin(self, due: Due) -> None:
        operation = self._compute(due.node).reboot(
            due.compute_id, hard=due.hard, wait=True, timeout=due.patience_s
        )
        self._report_when_done(due.node, operation)

    def result(self, value: None, tx: Transaction, member: Member, desired: Desired) -> bool:
        return self._joins_again(tx, member)

    def _joins_again(self, tx: Transaction, member: Member, **changes: Any) -> bool:
        tx.settle(self.act, member.node)
        self._nodes.change(tx, member, state=NodeState.JOINING, cause=None, **changes)
        return True


class Rebuild(Reboot):
    """Rebuilds the machine of a node from its image."""

    act = ActionKind.REBUILD

    def begin(self, due: Due) -> None:
        operation = self._compute(due.node).rebuild(
            due.compute_id, image_id=due.machine.image, wait=True, timeout=due.patience_s
        )
        self._report_when_done(due.node, operation)

    def result(self, value: None, tx: Transaction, member: Member, desired: Desired) -> bool:
        made_with = desired.made_with(member.node.group)
        return self._joins_again(tx, member, made_with=made_with)
