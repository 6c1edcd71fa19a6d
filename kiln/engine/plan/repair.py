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

    :param now: in seconds since the epoch, like the times of the nodes.
    """
    live = [node for node in nodes if not going(node)]
    given_up = {node.id: reason for node in live if (reason := _why(node, group.health, now))}
    # The longest sick go first, since they have been missing the longest.
    queue = sorted((node.since, node.id, node) for node in live if node.id in given_up)
    waiting = [node for *_, node in queue]
    hold, room = _brake(group, live, given_up)
    # A clock that was set back ends the pause, which it would make longer.
    if setback is not None and setback.at <= now < setback.until and not hold:
        hold = (
            f'{setback.count} nodes failed in a row, and the next is built at '
            f'{clock_time(math.ceil(setback.until))}'
        )
        room = 0
    if len(waiting) > room and not hold:
        hold = f'others are under way, and max_in_flight is {group.health.max_in_flight}'
    taken, left = waiting[:room], waiting[room:]
    return Remediation(
        victims=MappingProxyType({node.id: given_up[node.id] for node in taken}),
        hold=hold if left else '',
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


def _brake(
    group: NodeGroupSpec, live: Sequence[Node], given_up: Mapping[str, str]
) -> tuple[str, int]:
    """Return why no node can be replaced, if so, and how many can."""
    allowed = group.health.max_unhealthy
    bad = sum(node.id in given_up or node.state in _BAD for node in live)
    most = allowed.of(len(live))
    # 40% of two nodes rounds down to zero; but one sick node is not an outage.
    if allowed.percent and allowed.amount:
        most = max(1, most)
    if bad > most:
        of = f'{bad} of {len(live)} nodes are unhealthy or unknown'
        return f'the brake holds: {of}, and max_unhealthy is {allowed}', 0
    # A removed node without a successor is under way as well.
    missing = max(0, group.shape.count - len(live))
    making = sum(node.state in MAKING and node.id not in given_up for node in live)
    return '', max(0, group.health.max_in_flight - missing - making)
