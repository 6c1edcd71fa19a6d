"""Node actions DRAIN and RELIEVE: take work away from a node that leaves, or is reset."""

from __future__ import annotations

from kiln.cluster_drivers.values import Drained
from kiln.clusters.models import Cause, Node, NodeState
from kiln.engine.nodes.action import NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.lifecycle import ActionKind


class Drain(NodeAction):
    """Drains a node, which is deleted then."""

    kind = ActionKind.DRAIN

    def start(self, node: Node) -> None:
        self._report_call(node, self._state.driver.drain)

    def result(self, member: Member, value: Drained) -> None:
        if value.done:
            self._drained(member)
        else:
            reason = value.reason
            self._repeat(member, Cause(code='not_drained', message=reason) if reason else None)

    def _drained(self, member: Member) -> None:
        self._nodes.change(member, state=NodeState.DELETING, cause=None)


class Relieve(Drain):
    """Drains a node, which comes back after its reset."""

    kind = ActionKind.RELIEVE

    def _drained(self, member: Member) -> None:
        member.relieved = True
        # From now on it has the time of a node that starts.
        self._nodes.change(member, since=self._tx.now, cause=None)
