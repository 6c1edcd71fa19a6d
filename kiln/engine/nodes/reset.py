"""Node actions REBOOT and REBUILD: reset a machine, which then joins again."""

from __future__ import annotations

from typing import Any

from kiln.clusters.models import NodeState
from kiln.engine.nodes.action import Due, NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.transaction import Entry
from kiln.engine.plan.desired import Wishes
from kiln.engine.plan.lifecycle import Act


class Reboot(NodeAction):
    """Reboots the machine of a node."""

    act = Act.REBOOT

    def begin(self, due: Due) -> None:
        operation = self._compute(due.node).reboot(
            due.compute_id, hard=due.hard, wait=True, timeout=due.patience_s
        )
        self._report_when_done(due.node, operation)

    def result(self, value: None, entry: Entry, member: Member, wishes: Wishes) -> bool:
        return self._joins_again(entry, member)

    def _joins_again(self, entry: Entry, member: Member, **changes: Any) -> bool:
        entry.settle(self.act, member.node)
        self._roster.change(entry, member, state=NodeState.JOINING, cause=None, **changes)
        return True


class Rebuild(Reboot):
    """Rebuilds the machine of a node from its image."""

    act = Act.REBUILD

    def begin(self, due: Due) -> None:
        operation = self._compute(due.node).rebuild(
            due.compute_id, image_id=due.machine.image, wait=True, timeout=due.patience_s
        )
        self._report_when_done(due.node, operation)

    def result(self, value: None, entry: Entry, member: Member, wishes: Wishes) -> bool:
        made_with = wishes.made_with(member.node.group)
        return self._joins_again(entry, member, made_with=made_with)
