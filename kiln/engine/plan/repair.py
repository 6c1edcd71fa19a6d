"""Which nodes are given up, and the brake that keeps an outage from becoming a rebuild; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from kiln.clusters.models import Node, NodeState
from kiln.clusters.spec import Health, NodeGroupSpec
from kiln.engine.plan.changes import going
from kiln.engine.plan.lifecycle import pause_s
from kiln.engine.plan.rollout import MAKING

_BAD = frozenset({NodeState.UNHEALTHY, NodeState.FAILED, NodeState.UNKNOWN})


@dataclasses.dataclass(frozen=True, slots=True)
class Setback:
    """How many nodes of a group failed one after the other, and when the last one did."""

    count: int
    at: float

    @property
    def until(self) -> float:
        """When the next one is made: at once for the first, then later and later."""
        return self.at + (pause_s(self.count - 1) if self.count > 1 else 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Remediation:
    """Which nodes to replace now, by id, and why; the planner takes them as victims."""

    victims: Mapping[str, str]
    #: Why others are given up in a later turn only; empty if there are none.
    hold: str = ''


def remediate(
    group: NodeGroupSpec, nodes: Iterable[Node], now: float, setback: Setback | None = None
) -> Remediation:
    """Return which nodes of a group to replace now.

    One that is UNKNOWN is never given up. But it is not known to be well
    either, so the brake counts it: a backend out of sight is no time to build.
    A node that came out of a build in vain is given up at once, others when
    they had the time of ``Health``. Where one failed after the other, none is
    given up before its time.

    :param now: in seconds since the epoch, as the nodes' own times are.
    """
    live = [node for node in nodes if not going(node)]
    given_up = {node.id: reason for node in live if (reason := _why(node, group.health, now))}
    # The longest sick go first, for their work has been missing the longest.
    queue = sorted((node.since, node.id, node) for node in live if node.id in given_up)
    waiting = [node for *_, node in queue]
    hold, room = _brake(group, live, given_up)
    if setback is not None and now < setback.until and not hold:
        wait_s = setback.until - now
        hold = f'{setback.count} nodes failed in a row, and the next is made in {wait_s:.0f} s'
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
    # One that is only planned waits for kiln or for room, not for itself.
    starting = node.state in MAKING and node.state is not NodeState.PLANNED
    if starting and lasted >= health.startup_timeout_s:
        return f'{node.state} for {lasted:.0f} s'
    return ''


def _brake(
    group: NodeGroupSpec, live: Sequence[Node], given_up: Mapping[str, str]
) -> tuple[str, int]:
    """Return why none may be replaced, if so, and how many may."""
    allowed = group.health.max_unhealthy
    bad = sum(node.id in given_up or node.state in _BAD for node in live)
    most = allowed.of(len(live))
    # Forty of a hundred of two nodes are none; but one node is no storm.
    if allowed.percent and allowed.amount:
        most = max(1, most)
    if bad > most:
        of = f'{bad} of {len(live)} nodes are unhealthy or unknown'
        return f'the brake holds: {of}, and max_unhealthy is {allowed}', 0
    # Who has been sent away and has no successor yet is under way as well.
    missing = max(0, group.shape.count - len(live))
    making = sum(node.state in MAKING and node.id not in given_up for node in live)
    return '', max(0, group.health.max_in_flight - missing - making)
