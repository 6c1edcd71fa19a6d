"""Remediation: the nodes to give up, and the brake that stops mass rebuilds; pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from kiln.clock import clock_time
from kiln.clusters.models import Node, NodeState
from kiln.clusters.spec import Health, NodeGroupSpec
from kiln.engine.plan.changes import going
from kiln.engine.plan.lifecycle import pause_s
from kiln.engine.plan.rollout import MAKING

_BAD = frozenset({NodeState.UNHEALTHY, NodeState.FAILED, NodeState.UNKNOWN})


@dataclasses.dataclass(frozen=True, slots=True)
class Setback:
    """How many nodes of a group failed in a row, and when the last one did."""

    count: int
    at: float

    @property
    def until(self) -> float:
        """When the next node is built: at once after the first failure, then ever later."""
        return self.at + (pause_s(self.count - 1) if self.count > 1 else 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Remediation:
    """The nodes to replace now, by id, and why; the planner removes them."""

    victims: Mapping[str, str]
    #: Why others are given up only in a later round; empty if none are.
    hold: str = ''


def remediate(
    group: NodeGroupSpec, nodes: Iterable[Node], now: float, setback: Setback | None = None
) -> Remediation:
    """Return which nodes of a group to replace now.

    An UNKNOWN node is never given up, but the brake counts it, since it is not known to be
    healthy either: while a backend is out of reach is not the time to build. A node whose
    build failed is given up at once, others after the times of ``Health``. After several
    failures in a row, no node is given up before the pause is over.

    Nodes that failed do not recover by themselves. So while the brake holds, they are replaced
    one at a time, which shows whether the backend can build again.

    :param now: in seconds since the epoch, like the times of the nodes.
    """
    live = [node for node in nodes if not going(node)]
    given_up = {node.id: reason for node in live if (reason := _why(node, group.health, now))}
    # The longest sick go first, since they have been missing the longest.
    queue = sorted((node.since, node.id, node) for node in live if node.id in given_up)
    waiting = [node for *_, node in queue]
    eligible, most = waiting, group.health.max_in_flight
    if hold := _brake(group, live, given_up):
        eligible = _beyond_recovery(group, live)
        most = min(1, most)
        if eligible:
            hold = f'{hold}; those that failed are replaced one at a time'
    room = _room(group, live, given_up, most)
    # A clock that was set back ends the pause, which it would make longer.
    if eligible and setback is not None and setback.at <= now < setback.until:
        hold = (
            f'{setback.count} nodes failed in a row, and the next is built at '
            f'{clock_time(math.ceil(setback.until))}'
        )
        room = 0
    if len(waiting) > room and not hold:
        hold = f'others are under way, and max_in_flight is {group.health.max_in_flight}'
    taken = eligible[:room]
    return Remediation(
        victims=MappingProxyType({node.id: given_up[node.id] for node in taken}),
        hold=hold if len(waiting) > len(taken) else '',
    )


def _why(node: Node, health: Health, now: float) -> str:
    lasted = now - node.since
    if node.state is NodeState.FAILED:
        return f'failed: {node.cause.message}' if node.cause else 'failed'
    if node.state is NodeState.UNHEALTHY and lasted >= health.unhealthy_after_s:
        return f'unhealthy for {lasted:.0f} s'
    # A node that is only planned waits for kiln or for room, not for itself.
    starting = node.state in MAKING and node.state is not NodeState.PLANNED
    if starting and lasted >= health.startup_timeout_s:
        return f'{node.state} for {lasted:.0f} s'
    return ''


def _brake(group: NodeGroupSpec, live: Sequence[Node], given_up: Mapping[str, str]) -> str:
    """Return why nodes cannot be replaced as they fail; empty if they can."""
    allowed = group.health.max_unhealthy
    bad = sum(node.id in given_up or node.state in _BAD for node in live)
    most = allowed.of(len(live))
    # 40% of two nodes rounds down to zero; but one sick node is not an outage.
    if allowed.percent and allowed.amount:
        most = max(1, most)
    if bad > most:
        of = f'{bad} of {len(live)} nodes are unhealthy or unknown'
        return f'the brake holds: {of}, and max_unhealthy is {allowed}'
    return ''


def _beyond_recovery(group: NodeGroupSpec, live: Sequence[Node]) -> list[Node]:
    """Return the nodes that can be replaced while the brake holds, the longest sick first."""
    if not group.health.max_unhealthy.amount:
        return []
    # A backend that does not report nodes is not asked for others.
    if any(node.state is NodeState.UNKNOWN for node in live):
        return []
    failed = (node for node in live if node.state is NodeState.FAILED)
    return sorted(failed, key=lambda node: (node.since, node.id))


def _room(
    group: NodeGroupSpec, live: Sequence[Node], given_up: Mapping[str, str], most: int
) -> int:
    """Return how many nodes can be replaced now, if no more than ``most`` are at once."""
    # A removed node without a successor is under way as well.
    missing = max(0, group.shape.count - len(live))
    making = sum(node.state in MAKING and node.id not in given_up for node in live)
    return max(0, most - missing - making)
