"""Node action LOOK: read the state of a machine that the backend could not report."""

from __future__ import annotations

from kiln.clusters.models import NodeState
from kiln.engine.nodes.action import Due, NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan import lifecycle
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind
from kiln.models import ComputeStatus, State

_STATES = {
    State.ACTIVE: NodeState.READY,
    State.ERROR: NodeState.FAILED,
    State.SUSPENDED: NodeState.UNHEALTHY,
    State.STOPPED: NodeState.UNHEALTHY,
}


class Look(NodeAction):
    """Asks again until the state of the machine is known."""

    act = ActionKind.LOOK

    def begin(self, due: Due) -> None:
        status = self._compute(due.node).status(due.compute_id)
        self._report_when_done(due.node, status)

    def result(
        self, value: ComputeStatus, tx: Transaction, member: Member, desired: Desired
    ) -> bool:
        state = _STATES.get(value.state, NodeState.UNKNOWN)
        self._nodes.change(tx, member, state=state)
        if state is NodeState.UNKNOWN:
            member.not_before = tx.moment + lifecycle.LOOK_S
        return state is not NodeState.UNKNOWN
