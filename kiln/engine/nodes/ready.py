"""Node action ASK_READY: ask the cluster driver if a node does its work."""

from __future__ import annotations

from kiln.cluster_drivers.values import READY, Readiness, ReadyState
from kiln.clusters.models import Cause, Node, NodeState
from kiln.engine.nodes.action import NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.diff import is_control
from kiln.engine.plan.lifecycle import ActionKind
from kiln.hooks.points import Point
from kiln.hooks.run import Standing


class AskReady(NodeAction):
    """Repeats until the node is ready, or fails for good."""

    kind = ActionKind.ASK_READY

    def start(self, node: Node) -> None:
        self._report_call(node, self._state.driver.is_ready)

    def result(self, member: Member, value: Readiness) -> None:
        node = member.node
        if value.state is ReadyState.READY:
            value = self._after_hooks(node)
        if value.state is ReadyState.READY:
            self._nodes.change(member, state=NodeState.READY, cause=None)
            self._tx.event('node-ready', f'{node.name} is ready', node)
            # The other groups wait for the control nodes.
            self._nodes.replan |= is_control(self._tx.cluster.spec, node.group)
            return
        cause = Cause(code=f'readiness_{value.state.value}', message=value.reason)
        if value.state is ReadyState.FAILED:
            self._nodes.change(member, state=NodeState.FAILED, cause=cause)
            self._tx.event('node-failed', f'{node.name}: {value.reason}', node)
            self._nodes.replan = True
        else:
            self._repeat(member, cause)

    def _after_hooks(self, node: Node) -> Readiness:
        """Return that a ready node is not ready while its hooks hold it up.

        The driver is asked again then, so the final result is always the current one.
        """
        hooks = self._state.hooks
        standing = hooks.check(Point.POST_NODE_READY, node)
        if standing is Standing.PASSED:
            return READY
        cause = hooks.cause(Point.POST_NODE_READY, node.id)
        reason = cause.message if cause else 'The next operation calls its hooks.'
        failed = standing is Standing.FAILED
        return Readiness.failed(reason) if failed else Readiness.not_yet(reason)
