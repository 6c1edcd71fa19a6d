"""Progress of an operation on a cluster, as numbers; pure functions."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from kiln.cluster_service.proposals import Proposal
from kiln.cluster_service.views import ClusterView
from kiln.clusters.models import Cause, Node, NodeState, Operation, OperationKind

_NONE: frozenset[str] = frozenset()
_MAKING = frozenset({NodeState.BUILDING, NodeState.BOOTING, NodeState.JOINING})
_ODD = frozenset({NodeState.FAILED, NodeState.UNHEALTHY, NodeState.UNKNOWN})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class GroupGoal:
    """The work of an operation in one group."""

    #: Number of nodes to create.
    makes: int = 0
    #: The ids of the nodes to remove, and of those to change in place.
    leave: frozenset[str] = _NONE
    touched: frozenset[str] = _NONE

    @property
    def total(self) -> int:
        """The number of nodes to create, remove or change."""
        return self.makes + len(self.leave) + len(self.touched)


Goal = Mapping[str, GroupGoal]
NO_GOAL: Goal = MappingProxyType({})


def goal_of(proposal: Proposal) -> Goal:
    """Return the work of a proposal by group."""
    touched = collections.defaultdict(set)
    for node in proposal.touched:
        touched[node.group].add(node.id)
    goals = {name: GroupGoal(touched=frozenset(ids)) for name, ids in touched.items()}
    for plan in proposal.plan.groups:
        replaced = (act.node for act in plan.replaces)
        leaving = (*replaced, *(act.node for act in plan.removes), *plan.leaving)
        goals[plan.group] = dataclasses.replace(
            goals.get(plan.group, GroupGoal()),
            makes=len(plan.adds) + len(plan.replaces),
            leave=frozenset(node.id for node in leaving),
        )
    return goals


def goal_of_view(view: ClusterView) -> Goal:
    """Return the work of an operation that another process submitted, as far as known."""
    operation = view.operation
    if operation is None or operation.kind is not OperationKind.DELETE:
        return NO_GOAL
    return {
        name: GroupGoal(leave=frozenset(node.id for node in nodes))
        for name, nodes in _by_group(view).items()
    }


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class GroupCourse:
    """Progress of one group."""

    name: str
    done: int
    total: int
    counts: Mapping[NodeState, int]
    #: Nodes that failed or are held up.
    odd: tuple[Node, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """Progress of an operation on a cluster."""

    name: str
    operation: Operation
    state: str
    ready: int
    wanted: int
    groups: tuple[GroupCourse, ...] = ()
    #: Seconds since it was submitted, and the estimated seconds left, if known.
    elapsed_s: float = 0.0
    left_s: float | None = None

    @property
    def done(self) -> int:
        """The number of nodes that are done."""
        return sum(group.done for group in self.groups)

    @property
    def total(self) -> int:
        """The number of nodes to create, remove or change."""
        return sum(group.total for group in self.groups)

    @property
    def held_up(self) -> Iterator[Node]:
        """The nodes that are held up, and have not failed."""
        for group in self.groups:
            for node in group.odd:
                if node.cause is not None and node.state is not NodeState.FAILED:
                    yield node

    def causes(self) -> Iterator[tuple[Cause, tuple[Node, ...]]]:
        """Yield each cause that holds the operation up once, with the nodes concerned."""
        if self.operation.cause is not None:
            yield self.operation.cause, ()
        found: dict[Cause, list[Node]] = {}
        for group in self.groups:
            for node in group.odd:
                if node.cause is not None:
                    found.setdefault(node.cause, []).append(node)
        for cause, nodes in found.items():
            yield cause, tuple(nodes)


def course(view: ClusterView, operation: Operation, goal: Goal, now: float) -> Course:
    """Return the progress of an operation from the stored state of its cluster."""
    nodes = _by_group(view)
    wanted = {group.name: group.shape.count for group in view.cluster.spec.groups}
    if view.cluster.built_elsewhere:
        # Its driver reports the progress, in words: see the cause of the operation.
        wanted = {}
    groups = tuple(
        _group(name, nodes.get(name, []), wanted.get(name, 0), goal.get(name), operation)
        for name in dict.fromkeys((*wanted, *nodes))
    )
    ended_at = operation.ended_at or now
    return Course(
        name=view.cluster.name,
        operation=operation,
        state=view.state if not operation.state.ended else operation.state.value,
        ready=view.ready,
        wanted=view.wanted,
        groups=groups,
        elapsed_s=max(0.0, ended_at - operation.created_at),
        left_s=None if operation.state.ended else _left_s(view, operation, goal, now),
    )


def _group(
    name: str, nodes: Sequence[Node], wanted: int, goal: GroupGoal | None, operation: Operation
) -> GroupCourse:
    staying = [node for node in nodes if node.state is NodeState.READY and not node.doomed]
    if goal is None or not goal.total:
        total, done = wanted, min(len(staying), wanted)
    else:
        there = {node.id for node in nodes}
        begun = operation.created_at
        made = [node for node in staying if node.created_at >= begun]
        touched = [node for node in staying if node.id in goal.touched and node.since >= begun]
        total = goal.total
        done = min(len(made), goal.makes) + len(goal.leave - there) + len(touched)
    return GroupCourse(
        name=name,
        done=done,
        total=total,
        counts=MappingProxyType(collections.Counter(node.state for node in nodes)),
        odd=tuple(node for node in nodes if node.cause is not None or node.state in _ODD),
    )


def _left_s(view: ClusterView, operation: Operation, goal: Goal, now: float) -> float | None:
    """Estimate the seconds left from the nodes created so far."""
    nodes = view.nodes or ()
    new = [node for node in nodes if node.created_at >= operation.created_at and not node.doomed]
    took_s = [node.since - node.created_at for node in new if node.state is NodeState.READY]
    making = [node for node in new if node.state in _MAKING]
    asked_for = sum(one.makes for one in goal.values()) or len(new)
    to_come = max(0, asked_for - len(took_s) - len(making))
    if not took_s or not (making or to_come):
        return None
    # Nodes in progress take as long as the slowest so far; others follow at the rate so far.
    slowest_s, oldest_s = max(took_s), min((now - one.created_at for one in making), default=0.0)
    under_way_s = slowest_s - oldest_s if making else 0.0
    each_s = max(0.0, now - min(node.created_at for node in new)) / len(took_s)
    return max(1.0, under_way_s, to_come * each_s)


def _by_group(view: ClusterView) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in view.nodes or ():
        found.setdefault(node.group, []).append(node)
    return found
