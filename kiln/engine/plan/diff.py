"""The planner: computes the changes that lead to the desired state; pure.

Explicit counts of flavors, zones and placements bind. An even spread does not: growing
and shrinking even it out, but no node is moved for it.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import Node, NodeState
from kiln.clusters.placing.counts import (
    check_count,
    flavor_counts,
    place_order,
    resized,
    zone_counts,
)
from kiln.clusters.placing.layout import Layout
from kiln.clusters.placing.removal_order import RemovalOrder, excess
from kiln.clusters.spec import ClusterSpec, Place, Shape, Strategy
from kiln.engine.plan.changes import (
    Add,
    ClusterPlan,
    DesiredGroup,
    GroupPlan,
    Keep,
    Remove,
    Replace,
    Shared,
    going,
)
from kiln.engine.plan.choice import Choice
from kiln.engine.plan.rollout import check_strategy

CONTROL = 'control'
OUTDATED = 'built from an older spec'

_NOBODY: Mapping[str, str] = MappingProxyType({})
_RULES = Choice()
_ODD = {
    NodeState.UNKNOWN: 'the backend cannot report its state',
    NodeState.FAILED: 'failed',
    NodeState.UNHEALTHY: 'unhealthy',
}


def is_control(spec: ClusterSpec, group: str) -> bool:
    """Return whether a group is a control group, which other groups join."""
    declared = spec.group(group)
    return declared is not None and declared.role == CONTROL


def plan_group(
    desired: DesiredGroup,
    nodes: Iterable[Node],
    *,
    victims: Mapping[str, str] = _NOBODY,
    replace: Mapping[str, str] = _NOBODY,
    upgrade: bool = False,
    choice: Choice = _RULES,
) -> GroupPlan:
    """Return the changes to a group; empty once all of them are done.

    A node counts in the place it was planned for, even if a fallback built it elsewhere.
    A node that is being removed does not count. One that is UNKNOWN or failed counts:
    ``remediation`` decides whether it is given up.

    :param victims: ids of nodes that are removed in any case, and why.
    :param replace: ids of nodes that are to be replaced one by one, and why.
    :param upgrade: also replace the nodes that were built from an older spec.
    :param choice: the driver's choice among the nodes that could go.
    :raises ClusterNotFound: the group has no node with one of the ids.
    :raises InvalidCluster: the counts of the shape do not add up.
    """
    there = _there(nodes, (*victims, *replace), f'Group {desired.group.name}')
    live = [node for node in there if not going(node)]
    staying = [node for node in live if node.id not in victims]
    stale = _stale(desired, staying, replace, upgrade)
    layout = Layout(desired.group, staying, stale, flavor=desired.flavor, zones=desired.zones)
    surplus = layout.surplus(staying)
    gone = {node.id for node in surplus}
    kept = [node for node in staying if node.id not in gone]
    lacking = layout.lacking(kept)
    moves, surplus, new = _paired(surplus, lacking)
    extra, kept = choice.exchanged(surplus, kept, stale)
    replaces = [
        *((node, to, layout.why(node)) for node, to in moves),
        *((node, node.place, stale[node.id]) for node in kept if node.id in stale),
    ]

    named = [node for node in live if node.id in victims]
    # A group that is to be empty needs no nodes to stay ready.
    empty = not desired.group.shape.count
    plan = GroupPlan(
        group=desired.group.name,
        role=desired.group.role,
        count=desired.group.shape.count,
        strategy=desired.group.strategy,
        table=_in_order([*(node.place for node in kept), *lacking]),
        adds=tuple(Add(place=place, reason='fills the largest deficit') for place in new),
        replaces=tuple(
            Replace(node=node, place=to, reason=why, held=choice.holds_replacement(node))
            for node, to, why in sorted(replaces, key=lambda one: choice.replacement_rank(one[0]))
        ),
        removes=(
            *(Remove(node=node, reason=victims[node.id], named=True) for node in named),
            *_surplus_removals(extra, staying, stale, empty, layout, choice),
        ),
        keeps=tuple(
            Keep(node=node, reason=_odd(desired, node)) for node in kept if node.id not in stale
        ),
        leaving=tuple(node for node in there if going(node)),
    )
    problems = (*check_count(desired.group, plan.count), *check_strategy(plan))
    return dataclasses.replace(plan, problems=problems)


def _surplus_removals(
    extra: Sequence[Node],
    staying: Sequence[Node],
    stale: Mapping[str, str],
    empty: bool,
    layout: Layout,
    choice: Choice,
) -> Iterator[Remove]:
    old = sum(node.id in stale for node in extra)
    # A node is added before an outdated one goes, which then is one too many.
    succeeded = 0 < old <= len(staying) - len(stale)
    for node in extra:
        replaced = succeeded and node.id in stale
        held = choice.holds_replacement(node) if replaced else choice.holds_removal(node)
        yield Remove(
            node=node, reason=layout.why(node), named=empty, succeeded=replaced, held=held
        )


def plan_cluster(
    cluster: str,
    desired: Sequence[DesiredGroup],
    nodes: Iterable[Node],
    *,
    exists: bool,
    former: ClusterSpec | None = None,
    victims: Mapping[str, str] = _NOBODY,
    replace: Mapping[str, str] = _NOBODY,
    upgrade: Collection[str] = (),
    choice: Choice = _RULES,
) -> ClusterPlan:
    """Return the changes to a cluster; with no desired groups, its deletion.

    Control groups come first, and dropped groups last, with control groups at the end.

    :param exists: True if the shared resources have been created.
    :param former: the spec from which the roles of dropped groups are read.
    :param upgrade: names of groups in which outdated nodes are replaced.
    :raises ClusterNotFound: the cluster has no node with one of the ids.
    :raises InvalidCluster: the counts of a shape do not add up.
    """
    there = _there(nodes, (*victims, *replace), f'Cluster {cluster}')
    by_group: dict[str, list[Node]] = {one.group.name: [] for one in desired}
    for node in there:
        by_group.setdefault(node.group, []).append(node)
    plans = []
    for one in sorted(desired, key=lambda one: one.group.role != CONTROL):
        name = one.group.name
        members = by_group.pop(name)
        plans.append(
            plan_group(
                one,
                members,
                victims=_among(members, victims),
                replace=_among(members, replace),
                upgrade=name in upgrade,
                choice=choice,
            )
        )
    why = 'the group is no longer declared' if desired else 'the cluster is deleted'
    dropped = [
        _dropped(name, members, former, why, choice) for name, members in sorted(by_group.items())
    ]
    plans += sorted(dropped, key=lambda plan: plan.role == CONTROL)
    shared = Shared.KEEP if exists else Shared.ADD
    return ClusterPlan(
        cluster=cluster, shared=shared if desired else Shared.REMOVE, groups=tuple(plans)
    )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Resize:
    """A new shape and the nodes removed for it, to be written together."""

    shape: Shape
    #: By id, why.
    victims: Mapping[str, str]


def resize(
    desired: DesiredGroup, nodes: Iterable[Node], count: int, named: Mapping[str, str] = _NOBODY
) -> Resize:
    """Return the shape of a group with another count, and the nodes removed for it.

    Named nodes are removed first; the group's rules choose the rest. The shape loses the
    flavors and zones of exactly these nodes, so no other node moves. Named nodes beyond
    the difference are replaced.

    ``check_count`` decides whether the count is allowed.

    :raises ClusterNotFound: the group has no node with one of the ids.
    :raises InvalidCluster: the count is below zero.
    """
    there = _there(nodes, named, f'Group {desired.group.name}')
    live = {node.id: node for node in there if not going(node)}
    chosen = [live.pop(node_id) for node_id in named if node_id in live]
    places = [node.place for node in chosen]
    victims = {node.id: named[node.id] for node in chosen}
    for node in _shrinking(desired, live.values(), resized(desired.group.shape, count, places)):
        victims[node.id] = 'the group shrinks'
        places.append(node.place)
    shape = resized(desired.group.shape, count, places)
    return Resize(shape=shape, victims=MappingProxyType(victims))


def _shrinking(desired: DesiredGroup, nodes: Collection[Node], draft: Shape) -> Iterator[Node]:
    """Yield the nodes to remove so that no more are left than a draft of the shape counts.

    The draft sets the number of each flavor. Its zones only set the order of removal:
    the zone counts follow from the nodes that are left.
    """
    order = RemovalOrder(rules=desired.group.deletion, zones=zone_counts(draft, desired.zones))
    if draft.placements:
        found = excess(nodes, order, lambda node: node.place, draft.placements)
    else:
        rooms = flavor_counts(draft, desired.flavor)
        found = excess(nodes, order, lambda node: node.place.flavor, rooms)
    for node in found[: max(0, len(nodes) - draft.count)]:
        if node.state is not NodeState.UNKNOWN:
            yield node


def _there(nodes: Iterable[Node], ids: Iterable[str], whose: str) -> list[Node]:
    """Return the nodes that are not gone; each id must exist, even if it is gone."""
    every = list(nodes)
    unknown = sorted({*ids} - {node.id for node in every})
    if unknown:
        raise ClusterNotFound(f'{whose} has no node {", ".join(unknown)}.')
    return [node for node in every if node.state is not NodeState.GONE]


def _stale(
    desired: DesiredGroup, nodes: Iterable[Node], replace: Mapping[str, str], upgrade: bool
) -> dict[str, str]:
    """Return the ids of nodes that are to be replaced in their places, and why."""
    stale = {node.id: OUTDATED for node in nodes if upgrade and outdated(node, desired.made_with)}
    return stale | {node.id: replace[node.id] for node in nodes if node.id in replace}


def outdated(node: Node, made_with: str) -> bool:
    """Return whether a node was built from another spec than that of a digest."""
    # It is unknown what an adopted node was built from.
    return bool(made_with and node.made_with) and node.made_with != made_with


def _odd(desired: DesiredGroup, node: Node) -> str:
    return _ODD.get(node.state, '') or (OUTDATED if outdated(node, desired.made_with) else '')


def _paired(
    surplus: Sequence[Node], lacking: Sequence[Place]
) -> tuple[list[tuple[Node, Place]], list[Node], list[Place]]:
    """Return the nodes paired with their new places, those only removed, and places only added.

    The last nodes in the order of removal are replaced, within their zone if possible. But
    those that are UNKNOWN are only removed, as far as others suffice: they get no successor
    until their state is known, so the places would be filled later than necessary.
    """
    count = min(len(surplus), len(lacking))
    waiting_first = sorted(surplus, key=lambda node: node.state is not NodeState.UNKNOWN)
    replaced = {node.id for node in waiting_first[len(surplus) - count :]}
    extra = [node for node in surplus if node.id not in replaced]
    moving = [node for node in surplus if node.id in replaced]
    by_zone: dict[str | None, collections.deque[int]] = collections.defaultdict(collections.deque)
    for index, place in enumerate(lacking):
        by_zone[place.zone].append(index)
    matched: dict[int, Node] = {}
    homeless = []
    for node in moving:
        queue = by_zone[node.place.zone]
        if queue:
            matched[queue.popleft()] = node
        else:
            homeless.append(node)
    left = [index for index in range(len(lacking)) if index not in matched]
    matched |= zip(left, homeless, strict=False)
    pairs = [(node, lacking[index]) for index, node in sorted(matched.items())]
    return pairs, extra, [lacking[index] for index in left[len(homeless) :]]


def _in_order(places: Iterable[Place]) -> Mapping[Place, int]:
    counts = collections.Counter(places)
    return MappingProxyType({place: counts[place] for place in sorted(counts, key=place_order)})


def _among(nodes: Iterable[Node], reasons: Mapping[str, str]) -> dict[str, str]:
    return {node.id: reasons[node.id] for node in nodes if node.id in reasons}


def _dropped(
    name: str, nodes: Sequence[Node], former: ClusterSpec | None, why: str, choice: Choice
) -> GroupPlan:
    group = former.group(name) if former else None
    return GroupPlan(
        group=name,
        role=group.role if group else '',
        count=0,
        strategy=Strategy(),
        table=_in_order(()),
        removes=tuple(
            Remove(node=node, reason=why, named=True, held=choice.holds_removal(node))
            for node in nodes
            if not going(node)
        ),
        leaving=tuple(node for node in nodes if going(node)),
    )
