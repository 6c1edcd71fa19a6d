"""Node action ASK_READY: ask the cluster driver if a node does its work."""

from __future__ import annotations

import functools

from kiln.cluster_drivers.values import Readiness, ReadyState
from kiln.clusters.models import Cause, NodeState
from kiln.engine.nodes.action import Due, NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind


class AskReady(NodeAction):
    """Asks again until the node is ready, or fails for good."""

    act = ActionKind.ASK_READY

    def begin(self, due: Due) -> None:
        is_ready = self._tools.driver.is_ready
        self._report_call(
            due.node, functools.partial(is_ready, due.context, due.cluster, due.node)
        )

    def result(self, value: Readiness, tx: Transaction, member: Member, desired: Desired) -> bool:
        node = member.node
        if value.state is ReadyState.READY:
            self._nodes.change(tx, member, state=NodeState.READY, cause=None)
            tx.tell('node-ready', f'{node.name} is ready', node)
            # The other groups wait for the control nodes.
            return desired.has_control(node.group)
        cause = Cause(code=f'readiness_{value.state.value}', message=value.reason)
        if value.state is ReadyState.FAILED:
            self._nodes.change(tx, member, state=NodeState.FAILED, cause=cause)
            tx.tell('node-failed', f'{node.name}: {value.reason}', node)
            return True
        return self._repeat(tx, member, cause)
