"""Node actions DRAIN and RELIEVE: take work away from a node that leaves, or is reset."""

from __future__ import annotations

import functools

from kiln.cluster_drivers.values import Drained
from kiln.clusters.models import Cause, NodeState
from kiln.engine.nodes.action import Due, NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind


class Drain(NodeAction):
    """Drains a node, which is deleted then."""

    act = ActionKind.DRAIN

    def begin(self, due: Due) -> None:
        drain = self._tools.driver.drain
        self._report_call(due.node, functools.partial(drain, due.context, due.cluster, due.node))

    def result(self, value: Drained, tx: Transaction, member: Member, desired: Desired) -> bool:
        if not value.done:
            reason = value.reason
            cause = Cause(code='not_drained', message=reason) if reason else None
            return self._repeat(tx, member, cause)
        self._drained(tx, member)
        return False

    def _drained(self, tx: Transaction, member: Member) -> None:
        self._nodes.change(tx, member, state=NodeState.DELETING, cause=None)


class Relieve(Drain):
    """Drains a node, which comes back after its reset."""

    act = ActionKind.RELIEVE

    def _drained(self, tx: Transaction, member: Member) -> None:
        member.relieved = True
        # From now on it has the time of a node that starts.
        self._nodes.change(tx, member, since=tx.now, cause=None)
