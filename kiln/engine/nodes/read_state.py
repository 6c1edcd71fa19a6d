"""Node action READ_STATE: read the state of a machine that the backend could not report."""

from __future__ import annotations

from typing import Any

from kiln.clusters.models import Node, NodeState
from kiln.engine.nodes.action import NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan import lifecycle
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.names import machine_id
from kiln.models import ComputeStatus, State

_STATES = {
    State.ACTIVE: NodeState.READY,
    State.ERROR: NodeState.FAILED,
    State.SUSPENDED: NodeState.UNHEALTHY,
    State.STOPPED: NodeState.UNHEALTHY,
}


class ReadState(NodeAction):
    """Repeats until the state of the machine is known."""

    kind = ActionKind.READ_STATE

    def start(self, node: Node) -> Any:
        return self._compute(node).status(machine_id(node))

    def result(self, member: Member, value: ComputeStatus) -> None:
        state = _STATES.get(value.state, NodeState.UNKNOWN)
        self._nodes.change(member, state=state)
        if state is NodeState.UNKNOWN:
            member.not_before = self._tx.monotonic + lifecycle.LONGEST_POLL_S
        else:
            self._nodes.replan = True
