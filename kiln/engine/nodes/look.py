"""Node action LOOK: read the state of a machine that the backend could not report."""

from __future__ import annotations

from kiln.clusters.models import NodeState
from kiln.engine.nodes.action import Due, NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.transaction import Entry
from kiln.engine.plan import lifecycle
from kiln.engine.plan.desired import Wishes
from kiln.engine.plan.lifecycle import Act
from kiln.models import ComputeStatus, State

_STATES = {
    State.ACTIVE: NodeState.READY,
    State.ERROR: NodeState.FAILED,
    State.SUSPENDED: NodeState.UNHEALTHY,
    State.STOPPED: NodeState.UNHEALTHY,
}


class Look(NodeAction):
    """Asks again until the state of the machine is known."""

    act = Act.LOOK

    def begin(self, due: Due) -> None:
        status = self._compute(due.node).status(due.compute_id)
        self._report_when_done(due.node, status)

    def result(self, value: ComputeStatus, entry: Entry, member: Member, wishes: Wishes) -> bool:
        state = _STATES.get(value.state, NodeState.UNKNOWN)
        self._roster.change(entry, member, state=state)
        if state is NodeState.UNKNOWN:
            member.not_before = entry.moment + lifecycle.LOOK_S
        return state is not NodeState.UNKNOWN
