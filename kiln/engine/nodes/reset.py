"""Node actions REBOOT and REBUILD: reset a machine, which then joins again."""

from __future__ import annotations

from typing import Any

from kiln.clusters.models import Node, NodeState
from kiln.engine.nodes.action import NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.names import machine_id


class Reboot(NodeAction):
    """Reboots the machine of a node."""

    kind = ActionKind.REBOOT

    def start(self, node: Node) -> Any:
        operation = self._tx.operation
        return self._compute(node).reboot(
            machine_id(node),
            hard=operation is not None and bool(operation.args.get('hard')),
            wait=True,
            timeout=self._state.desired.startup_timeout_s(node.group),
        )

    def result(self, member: Member, value: None) -> None:
        self._joins_again(member)

    def failed(self, member: Member, error: BaseException) -> None:
        super().failed(member, error)
        if member.node.state is NodeState.FAILED:
            member.settled = True

    def _joins_again(self, member: Member, **changes: Any) -> None:
        self._tx.settle(self.kind, member.node)
        member.settled = True
        self._nodes.change(member, state=NodeState.JOINING, cause=None, **changes)
        self._nodes.replan = True


class Rebuild(Reboot):
    """Rebuilds the machine of a node from its image."""

    kind = ActionKind.REBUILD

    def start(self, node: Node) -> Any:
        desired = self._state.desired
        return self._compute(node).rebuild(
            machine_id(node),
            image_id=desired.machine(node.group).image,
            wait=True,
            timeout=desired.startup_timeout_s(node.group),
        )

    def result(self, member: Member, value: None) -> None:
        self._joins_again(member, made_with=self._state.desired.made_with(member.node.group))
