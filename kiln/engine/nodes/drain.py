"""Node actions DRAIN and RELIEVE: take work away from a node that leaves, or is reset."""

from __future__ import annotations

import math
from typing import Any

from kiln.cluster_drivers.values import Drained
from kiln.clusters.models import Cause, Node, NodeState
from kiln.engine.nodes.action import NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.lifecycle import ActionKind

#: The states of a node while it is drained.
_DRAINED = frozenset({NodeState.DRAINING, NodeState.RESETTING})


class Drain(NodeAction):
    """Drains a node, which is deleted then."""

    kind = ActionKind.DRAIN

    def begin(self, member: Member) -> None:
        """Call the driver, or give the drain up if it takes longer than its group allows."""
        if self._left_s(member) > 0:
            super().begin(member)
            return
        node = member.node
        message = f'{node.name} goes with its work: it was not drained in time'
        self._tx.event('drain-given-up', message, node)
        self._drained(member)
        self._nodes.touch(node.id)
        self._nodes.wake_at(self._tx.monotonic)

    def take(self, node_id: str, value: Any, error: BaseException | None) -> None:
        super().take(node_id, value, error)
        member = self._nodes.get(node_id)
        if member is not None and member.node.state in _DRAINED:
            # The pause after an error can be longer than the time that is left.
            latest = self._tx.monotonic + max(0.0, self._left_s(member))
            member.not_before = min(member.not_before, latest)

    def _left_s(self, member: Member) -> float:
        """Return the time that is left to drain a node; infinite without a limit."""
        cluster, node = self._tx.cluster, member.node
        # A group that is no longer declared keeps its limit.
        specs = [cluster.spec, *([cluster.former.spec] if cluster.former else [])]
        group = next(filter(None, (spec.group(node.group) for spec in specs)), None)
        limit_s = group.strategy.drain_timeout_s if group else None
        if limit_s is None or node.state not in _DRAINED:
            return math.inf
        return node.since + limit_s - self._tx.now

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
