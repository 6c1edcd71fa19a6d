"""The reboot and rebuild operations: reset nodes one after the other."""

from __future__ import annotations

from collections import defaultdict

from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import (
    Cause,
    Node,
    NodeState,
    OperationState,
    Step,
    StepState,
)
from kiln.clusters.spec import NodeGroupSpec, Shape
from kiln.engine.cluster.operation import NodeOperation
from kiln.engine.health.machine_check import MachineCheck
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.changes import going
from kiln.engine.plan.lifecycle import ActionKind, cause_of
from kiln.engine.plan.reset_rounds import RESETS, SICK, ResetRound, next_reset_round, refusal
from kiln.exceptions import KilnError

#: Nodes that a cause names; the others are only counted.
_NAMED = 5


class Reset(NodeOperation):
    """Takes nodes out of work one after the other, and waits until they are back.

    Its state is in the journal: a node whose step is settled is not reset again. A node
    whose step was only intended is, since it is unknown whether the reset was sent.
    """

    def __init__(self, state: NodeClusterState, machines: MachineCheck) -> None:
        super().__init__(state, machines)
        operation = self._tx.under_way
        named = operation.args.get('nodes')
        self._named = None if named is None else frozenset(named)
        self._kind, self._action = operation.kind, RESETS[operation.kind]
        self._retried_at = operation.retried_at
        self._rounds: list[ResetRound] = []
        for member in self._nodes.members():
            member.settled = False
        for step in state.parts.store.journal.of(operation.id):
            self._resume(step)

    def refusal(self) -> Cause | None:
        if missing := sorted(one for one in self._named or () if one not in self._nodes):
            message = f'The cluster has no node {", ".join(missing)}.'
            return Cause(code=ClusterNotFound.code, message=message)
        backends = self._state.parts.backends
        names = {node.backend for node in self._nodes.nodes() if self._is_affected(node)}
        try:
            able = [backends.get(name).capabilities() for name in names]
            error = refusal(self._kind, self._state.driver, able)
        # A backend that cannot be opened cannot reset nodes.
        except KilnError as exc:
            error = exc
        return cause_of(error) if error else None

    def _resume(self, step: Step) -> None:
        member = self._nodes.get(step.node_id or '')
        if member is None or step.kind != self._action.value:
            return
        # A node that was still sick when the operation was retried is reset once more.
        sick = step.state is StepState.FAILED or member.node.state in SICK
        if step.started_at <= self._retried_at and sick:
            return
        if step.state is StepState.INTENT:
            # The node was drained before the action was sent.
            member.relieved = True
        else:
            member.settled = True

    def _reset_action(self, member: Member) -> ActionKind | None:
        if not self._is_affected(member.node):
            return None
        return self._action if member.relieved else ActionKind.RELIEVE

    def step(self) -> bool:
        """Give up the nodes that are late, and take the next ones out of work."""
        self._machines.poll_when_due()
        groups: defaultdict[str, list[Member]] = defaultdict(list)
        for member in self._nodes.members():
            groups[member.node.group].append(member)
        self._rounds = []
        for name, members in sorted(groups.items()):
            # A group that is no longer declared can still have nodes.
            group = self._tx.cluster.spec.group(name) or NodeGroupSpec(
                name=name, shape=Shape(count=len(members))
            )
            for member in members:
                if self._is_late(member, group):
                    self._give_up(member, group)
            nodes = [member.node for member in members]
            settled = {member.node.id for member in members if member.settled}
            found = next_reset_round(group, nodes, settled, self._named)
            for node in found.begins:
                self._take_out(node)
            self._rounds.append(found)
        self._holds = tuple(hold for one in self._rounds for hold in one.holds)
        return True

    def finish(self) -> None:
        under_way = any(one.begins or one.under_way for one in self._rounds)
        failed = [node for one in self._rounds for node in one.failed]
        left = sum(len(one.waiting) for one in self._rounds)
        if under_way or self._nodes.busy or (left and not failed):
            self._wait()
        elif failed:
            self._tx.end(OperationState.FAILED, self._not_back(failed, left))
        elif self._outputs.current() and self._state.hooks.may_end():
            self._tx.end(OperationState.SUCCEEDED)

    def _not_back(self, failed: list[Node], left: int) -> Cause:
        rest = f'; {left} others were left alone, since too few nodes work' if left else ''
        return Cause(
            code='not_back',
            message=f'Cannot {self._kind.value} {_names(failed)}: not ready again{rest}.',
            hint='See the cause of each node; replace it, or repeat this with its name.',
            because=next((node.cause for node in failed if node.cause), None),
        )

    # ---- one node ------------------------------------------------------------

    def _is_affected(self, node: Node) -> bool:
        return not going(node) and (self._named is None or node.id in self._named)

    def _take_out(self, node: Node) -> None:
        member = self._nodes.get(node.id)
        assert member is not None
        # A node that does not work has nothing to drain.
        member.relieved, member.tries = node.state is not NodeState.READY, 0
        member.not_before = 0.0
        self._nodes.change(member, state=NodeState.RESETTING, cause=None)
        self._nodes.touch(node.id)
        self._tx.event(f'node-{self._action.value}', f'{node.name}: {self._action.value}', node)

    def _is_late(self, member: Member, group: NodeGroupSpec) -> bool:
        node = member.node
        if member.busy or not self._is_affected(node):
            return False
        # Draining has no time limit of its own.
        sent = node.state is NodeState.RESETTING and member.relieved
        back = node.state in (NodeState.BOOTING, NodeState.JOINING) and member.settled
        return (sent or back) and self._tx.now - node.since >= group.health.startup_timeout_s

    def _give_up(self, member: Member, group: NodeGroupSpec) -> None:
        node = member.node
        cause = Cause(
            code='startup_timeout',
            message=f'{node.name} has not come back in {group.health.startup_timeout_s:.0f} s.',
            hint='Check its console, or replace it.',
            because=node.cause,
        )
        if node.state is NodeState.RESETTING:
            self._tx.settle(self._action, node, cause)
            member.settled = True
        self._nodes.change(member, state=NodeState.FAILED, cause=cause)
        self._tx.event('node-failed', cause.message, node)


def _names(nodes: list[Node]) -> str:
    names = ', '.join(sorted(node.name for node in nodes)[:_NAMED])
    return f'{names} and {len(nodes) - _NAMED} more' if len(nodes) > _NAMED else names
