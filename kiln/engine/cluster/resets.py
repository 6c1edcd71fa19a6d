"""The reboot and rebuild operations: progress, next nodes, and end."""

from __future__ import annotations

from collections.abc import Iterable

from kiln.cluster_drivers.base import ClusterDriver
from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import Cause, Cluster, Node, NodeState, Operation, Step, StepState
from kiln.clusters.spec import NodeGroupSpec, Shape
from kiln.engine.context import Backends
from kiln.engine.nodes.node_table import Member, NodeTable
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.changes import going
from kiln.engine.plan.lifecycle import ActionKind, cause_of
from kiln.engine.plan.reset_rounds import RESETS, SICK, ResetRound, next_reset_round, refusal
from kiln.exceptions import KilnError

#: Nodes that a cause names; the others are only counted.
_NAMED = 5


class Resets:
    """Takes nodes out of work one after the other, and waits until they are back.

    Its state is in the journal: a node whose step is settled is not reset again. A node
    whose step was only intended is, since it is unknown whether the reset was sent.
    """

    def __init__(self, operation: Operation, steps: Iterable[Step], table: NodeTable) -> None:
        named = operation.args.get('nodes')
        self._named = None if named is None else frozenset(named)
        self._kind, self._act = operation.kind, RESETS[operation.kind]
        self._retried_at = operation.retried_at
        self._nodes = table
        self._settled: dict[str, StepState] = {}
        self._rounds: list[ResetRound] = []
        self.learn(steps)

    @property
    def holds(self) -> tuple[str, ...]:
        """Why some nodes wait."""
        return tuple(hold for one in self._rounds for hold in one.holds)

    def why_not(self, driver: ClusterDriver, backends: Backends) -> Cause | None:
        """Return why the operation cannot begin; None if it can."""
        if missing := sorted(one for one in self._named or () if one not in self._nodes):
            message = f'The cluster has no node {", ".join(missing)}.'
            return Cause(code=ClusterNotFound.code, message=message)
        targets = (node for node in self._nodes.nodes() if self._is_about(node))
        try:
            able = [backends.get(name).capabilities() for name in {one.backend for one in targets}]
            error = refusal(self._kind, driver, able)
        # A backend that cannot be opened cannot reset nodes.
        except KilnError as exc:
            error = exc
        return cause_of(error) if error else None

    def learn(self, steps: Iterable[Step]) -> None:
        """Take in the journalled steps of the operation."""
        for step in steps:
            if step.kind != self._act.value or step.node_id is None:
                continue
            # A node that was still sick when the operation was retried is reset once more.
            if step.started_at <= self._retried_at and self._is_sick(step):
                continue
            if step.state is not StepState.INTENT:
                self._settled[step.node_id] = step.state
            elif member := self._nodes.get(step.node_id):
                # The node was drained before the action was sent.
                member.relieved = True

    def act(self, member: Member) -> ActionKind | None:
        """Return the next action of a node that is out of work; None if it is not affected."""
        if not self._is_about(member.node):
            return None
        return self._act if member.relieved else ActionKind.RELIEVE

    def go_on(self, tx: Transaction, cluster: Cluster) -> None:
        """Give up the nodes that are late, and take the next ones out of work."""
        groups: dict[str, list[Node]] = {}
        for node in self._nodes.nodes():
            groups.setdefault(node.group, []).append(node)
        self._rounds = []
        for name, nodes in sorted(groups.items()):
            group = _group(cluster, name, nodes)
            late = [node for node in nodes if self._is_late(node, group, tx.now)]
            for node in late:
                self._give_up(tx, node, group)
            fresh = [member.node for one in nodes if (member := self._nodes.get(one.id))]
            found = next_reset_round(group, fresh, self._settled, self._named)
            for node in found.begins:
                self._take_out(tx, node)
            self._rounds.append(found)

    def verdict(self) -> tuple[bool, Cause | None]:
        """Return whether the operation is over, and if it failed, why."""
        if any(one.begins or one.under_way for one in self._rounds):
            return False, None
        failed = [node for one in self._rounds for node in one.failed]
        left = sum(len(one.waiting) for one in self._rounds)
        if not failed:
            return not left, None
        rest = f'; {left} others were left alone, since too few nodes work' if left else ''
        return True, Cause(
            code='not_back',
            message=f'Cannot {self._kind.value} {_names(failed)}: not ready again{rest}.',
            hint='See the cause of each node; replace it, or repeat this with its name.',
            because=next((node.cause for node in failed if node.cause), None),
        )

    # ---- one node ------------------------------------------------------------

    def _is_about(self, node: Node) -> bool:
        return not going(node) and (self._named is None or node.id in self._named)

    def _is_sick(self, step: Step) -> bool:
        member = self._nodes.get(step.node_id or '')
        back = member is not None and member.node.state not in SICK
        return step.state is StepState.FAILED or not back

    def _take_out(self, tx: Transaction, node: Node) -> None:
        member = self._nodes.get(node.id)
        assert member is not None
        # A node that does not work has nothing to drain.
        member.relieved, member.tries = node.state is not NodeState.READY, 0
        member.not_before = 0.0
        self._nodes.change(tx, member, state=NodeState.RESETTING, cause=None)
        self._nodes.touch(node.id)
        tx.tell(f'node-{self._act.value}', f'{node.name}: {self._act.value}', node)

    def _is_late(self, node: Node, group: NodeGroupSpec, now: float) -> bool:
        member = self._nodes.get(node.id)
        if member is None or member.busy or not self._is_about(node):
            return False
        # Draining has no time limit of its own.
        sent = node.state is NodeState.RESETTING and member.relieved
        back = node.state in (NodeState.BOOTING, NodeState.JOINING) and node.id in self._settled
        return (sent or back) and now - node.since >= group.health.startup_timeout_s

    def _give_up(self, tx: Transaction, node: Node, group: NodeGroupSpec) -> None:
        member = self._nodes.get(node.id)
        assert member is not None
        cause = Cause(
            code='startup_timeout',
            message=f'{node.name} has not come back in {group.health.startup_timeout_s:.0f} s.',
            hint='Check its console, or replace it.',
            because=node.cause,
        )
        if node.state is NodeState.RESETTING:
            tx.settle(self._act, node, cause)
            self._settled[node.id] = StepState.FAILED
        self._nodes.change(tx, member, state=NodeState.FAILED, cause=cause)
        tx.tell('node-failed', cause.message, node)


def _group(cluster: Cluster, name: str, nodes: list[Node]) -> NodeGroupSpec:
    # A group that is no longer declared can still have nodes.
    declared = cluster.spec.group(name)
    return declared or NodeGroupSpec(name=name, shape=Shape(count=len(nodes)))


def _names(nodes: list[Node]) -> str:
    names = ', '.join(sorted(node.name for node in nodes)[:_NAMED])
    return f'{names} and {len(nodes) - _NAMED} more' if len(nodes) > _NAMED else names
