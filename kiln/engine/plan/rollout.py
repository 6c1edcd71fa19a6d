"""The rollout of a plan: the changes that can begin now; pure.

Nothing is remembered between two rounds: each decides from the current state. So it can
be called at any time, also after a crash, and calling it twice begins nothing twice.
"""

from __future__ import annotations

import dataclasses

from kiln.clusters.exceptions import Problem
from kiln.clusters.models import Node, NodeState
from kiln.engine.plan.changes import Add, GroupPlan, Remove, Replace, named

#: The states of nodes that become ready if nothing fails.
MAKING = frozenset(
    {
        NodeState.PLANNED,
        NodeState.BUILDING,
        NodeState.BOOTING,
        NodeState.JOINING,
        NodeState.RESETTING,
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class GroupRound:
    """What to begin now: the nodes to build, and the nodes to remove."""

    adds: tuple[Add, ...] = ()
    removes: tuple[Remove, ...] = ()
    #: Why the rest of the plan has to wait.
    holds: tuple[str, ...] = ()
    #: True if a node could go now, and the driver's scale manager alone holds it.
    asks: bool = False


def check_strategy(plan: GroupPlan) -> tuple[Problem, ...]:
    """Return what makes it impossible to replace nodes; nothing if it is possible."""
    surge, missing = plan.strategy.max_surge, plan.strategy.max_unavailable
    if not plan.replaces or surge.of(plan.count) > 0 or missing.of(plan.count) > 0:
        return ()
    message = (
        f'Group {plan.group} has nodes to replace, but of {plan.count} nodes a max_surge of '
        f'{surge} and a max_unavailable of {missing} are zero. Raise one of them.'
    )
    return (Problem(path=f'nodegroups[{plan.group}].strategy', message=message),)


def spare(plan: GroupPlan) -> int:
    """Return how many ready nodes can be taken out of work now."""
    ready = sum(node.state is NodeState.READY for node in plan.live)
    ready -= sum(change.named and change.node.state is NodeState.READY for change in plan.removes)
    return max(0, ready - plan.count + plan.strategy.max_unavailable.of(plan.count))


def next_round(plan: GroupPlan) -> GroupRound:
    """Return the part of a plan that can begin now.

    A node that the driver's scale manager holds does not go. Nodes that were requested by
    name are removed at once. No other ready node is removed if
    that would leave fewer than ``max_unavailable`` allows, and no node is built while there
    are ``max_surge`` more than desired. A node whose deletion was requested no longer
    counts, so a backend that deletes slowly holds up nothing.

    Call it again whenever the state of a node has changed. If a plan has no problems, there
    is always something to begin, or something under way, or ``holds`` names the nodes that
    it waits for.
    """
    return _Rollout(plan).turn()


class _Rollout:
    """Goes through a plan and counts what it has begun."""

    def __init__(self, plan: GroupPlan) -> None:
        self._plan = plan
        self._adds: list[Add] = []
        self._removes: list[Remove] = []
        self._holds: dict[str, None] = {}
        #: Nodes that only the driver holds.
        self._held: list[Node] = []
        self._spare = spare(plan)
        self._most = plan.count + plan.strategy.max_surge.of(plan.count)
        self._batch = plan.strategy.batch
        undone = [node for node in plan.leaving if node.state is not NodeState.DELETING]
        self._present = len(plan.live) + len(undone)
        self._going = len(undone)
        self._making = sum(node.state in MAKING for node in plan.live)

    def turn(self) -> GroupRound:
        for change in self._plan.removes:
            if change.named:
                self._begin_unless_held(change)
        for add in self._plan.adds:
            self._add(add)
        # Nodes that do not work go first: removing them costs no capacity.
        chosen = [change for change in self._plan.removes if not change.named]
        for change in sorted(chosen, key=lambda change: change.node.state is NodeState.READY):
            self._remove(change, under_way=self._going)
        replaces = sorted(
            self._plan.replaces, key=lambda change: change.node.state is NodeState.READY
        )
        for replaced in replaces:
            change = Remove(node=replaced.node, reason=replaced.reason, held=replaced.held)
            self._remove(change, under_way=self._going + self._making)
        begun = {change.node.id for change in self._removes}
        # Filling the gap of a removed node is not a new replacement. So more nodes than a
        # batch can be under way, but never more replacements.
        for replaced in sorted(replaces, key=lambda change: change.node.id not in begun):
            self._succeed(replaced, gap=replaced.node.id in begun)
        if self._held:
            self._holds[f'the cluster driver does not let {named(self._held)} go now'] = None
        return GroupRound(
            adds=tuple(self._adds),
            removes=tuple(self._removes),
            holds=tuple(self._holds),
            asks=bool(self._held),
        )

    def _begin_unless_held(self, change: Remove) -> None:
        if change.held:
            self._held.append(change.node)
            return
        self._spare -= change.node.state is NodeState.READY and not change.named
        self._removes.append(change)
        self._going += 1
        self._making -= change.node.state in MAKING

    def _add(self, add: Add) -> None:
        if self._present >= self._most:
            self._holds[f'{self._present} nodes exist, and {self._most} are allowed'] = None
            return
        self._adds.append(add)
        self._present += 1
        self._making += 1

    def _succeed(self, change: Replace, gap: bool) -> None:
        if change.node.state is NodeState.UNKNOWN:
            return
        if gap or not self._crowded(self._going + self._making):
            self._add(Add(place=change.place, reason=f'for {change.node.name}: {change.reason}'))

    def _remove(self, change: Remove, under_way: int) -> None:
        state = change.node.state
        if state is NodeState.UNKNOWN:
            self._holds[f'the backend cannot report the state of {change.node.name}'] = None
        elif state is NodeState.READY and not self._spare:
            missing = self._plan.strategy.max_unavailable
            self._holds[f'no ready node can be spared with max_unavailable {missing}'] = None
        elif not self._crowded(under_way):
            self._begin_unless_held(change)

    def _crowded(self, under_way: int) -> bool:
        if self._batch is None or under_way < self._batch:
            return False
        self._holds[f'{under_way} nodes are under way, and batch is {self._batch}'] = None
        return True
