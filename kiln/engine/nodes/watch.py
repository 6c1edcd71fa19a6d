"""Node action WATCH: wait until a machine is active, and read its address."""

from __future__ import annotations

from typing import Any

from kiln.clusters.models import NodeState
from kiln.engine.nodes.action import Due, NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind
from kiln.exceptions import AmphoraComputeError
from kiln.models import Amphora


class Watch(NodeAction):
    """Waits for a machine that is being built, or that comes back."""

    act = ActionKind.WATCH

    def begin(self, due: Due) -> None:
        node = due.node

        def active(watch: Any) -> None:
            if (error := watch.exception()) is not None:
                self._report(node, None, error)
                return
            try:
                machine = self._compute(node).get_amphora(amphora_id=node.compute_id)
                self._report_when_done(node, machine)
            except AmphoraComputeError as exc:
                self._report(node, None, exc)

        self._compute(node).watch(due.compute_id).add_done_callback(active)

    def result(self, value: Amphora, tx: Transaction, member: Member, desired: Desired) -> bool:
        self._nodes.change(tx, member, state=NodeState.JOINING, address=value.address, cause=None)
        return False
