"""The next nodes to reboot or rebuild, so that the cluster works meanwhile; pure.

No node is added for one that is out of work for a while, so ``max_surge`` does not
apply. If ``max_unavailable`` is zero, one node goes at a time all the same; otherwise no
node could ever be rebooted. The holds of a round name the number that was used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.values import Cap
from kiln.clusters.exceptions import MissingCapability
from kiln.clusters.models import Node, NodeState, OperationKind
from kiln.clusters.spec import NodeGroupSpec
from kiln.engine.plan.changes import going
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.rollout import MAKING
from kiln.exceptions import KilnError, UnsupportedOperation
from kiln.models import Ability, Capabilities

#: The operations that reset nodes, and the action for each node.
RESETS: Mapping[OperationKind, ActionKind] = MappingProxyType(
    {OperationKind.REBOOT: ActionKind.REBOOT, OperationKind.REBUILD: ActionKind.REBUILD}
)
#: What an operation requires: of the cluster driver, and of the backends of the nodes.
_NEEDS: Mapping[OperationKind, tuple[Cap, Ability | None]] = MappingProxyType(
    {
        OperationKind.RESIZE: (Cap.RESIZE, None),
        OperationKind.UPGRADE: (Cap.UPGRADE, None),
        OperationKind.REBOOT: (Cap.REBOOT, Ability.REBOOT),
        OperationKind.REBUILD: (Cap.REBUILD, Ability.REBUILD),
    }
)
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_AWAY = MAKING | {NodeState.UNKNOWN}
#: States that a reset can cure.
SICK = frozenset({NodeState.UNHEALTHY, NodeState.FAILED})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ResetRound:
    """The nodes of a group to begin with now, and the progress so far."""

    begins: tuple[Node, ...] = ()
    #: Out of work, or on their way back.
    under_way: tuple[Node, ...] = ()
    #: Not begun, and not to be begun now.
    waiting: tuple[Node, ...] = ()
    #: Did not come back, or have no machine that could be reset.
    failed: tuple[Node, ...] = ()
    #: Why the waiting nodes wait.
    holds: tuple[str, ...] = ()


def rotated(args: Mapping[str, Any]) -> Cap:
    """Return the capability that a rotation requires, from its arguments."""
    return Cap(f'rotate_{args.get("what", "credential")}')


def refusal(
    kind: OperationKind,
    driver: ClusterDriver,
    backends: Iterable[Capabilities],
    args: Mapping[str, Any] = _NOTHING,
) -> KilnError | None:
    """Return why an operation is not possible at all; None if it is.

    Call it before the operation is submitted; the engine checks again before it begins.

    :param backends: the capabilities of the backends that have the affected nodes.
    :param args: the arguments of the operation.
    """
    cap, ability = _NEEDS.get(kind, (None, None))
    if kind is OperationKind.ROTATE:
        cap = rotated(args)
    if cap is None:
        return None
    try:
        driver.require(cap)
    except MissingCapability as exc:
        return exc
    lacking = sorted({one.driver for one in backends if ability not in one.abilities})
    if ability is None or not lacking:
        return None
    return UnsupportedOperation(
        f'Cannot {kind.value} nodes: backend {", ".join(lacking)} lacks the ability '
        f'{ability.value}. Nothing was done.'
    )


def most_away(group: NodeGroupSpec) -> int:
    """Return how many nodes of a group can be out of work at once; at least one."""
    return max(1, group.strategy.max_unavailable.of(group.shape.count))


def pace(group: NodeGroupSpec) -> str:
    """Return for people how many nodes of a group are reset at a time, and why."""
    written, batch = group.strategy.max_unavailable, group.strategy.batch
    most = most_away(group)
    if batch is not None and batch < most:
        return f'{batch} at a time: batch is {batch}'
    least = '' if written.of(group.shape.count) else ', but one goes in any case'
    return f'{most} at a time: max_unavailable is {written}{least}'


def next_reset_round(
    group: NodeGroupSpec,
    nodes: Iterable[Node],
    settled: Collection[str],
    named: Collection[str] | None = None,
) -> ResetRound:
    """Return the next nodes to reset of a group, each of which is reset once.

    The only memory is what is written: the states of the nodes, and which of them have
    been reset. So it can be called at any time, also after a crash. No ready node goes
    while more are out of work than ``max_unavailable`` allows, whatever the cause; nodes
    that do not work go first, since that costs no capacity.

    :param nodes: all of the group.
    :param settled: ids of the nodes whose reset has ended.
    :param named: ids of the nodes to reset; None means all.
    """
    live = [node for node in nodes if not going(node)]
    begins: list[Node] = []
    under_way: list[Node] = []
    waiting: list[Node] = []
    failed: list[Node] = []
    for node in live:
        if named is not None and node.id not in named:
            continue
        if node.state in SICK and (node.id in settled or node.compute_id is None):
            failed.append(node)
        elif node.state is NodeState.RESETTING or (node.id in settled and node.state in _AWAY):
            under_way.append(node)
        elif node.id not in settled:
            waiting.append(node)
    allowed = most_away(group)
    ready = sum(node.state is NodeState.READY for node in live)
    spare = ready - group.shape.count + allowed
    batch = group.strategy.batch
    holds: dict[str, None] = {}
    for node in sorted(waiting, key=lambda one: (one.state not in SICK, one.name, one.id)):
        if node.state in _AWAY:
            holds[f'{node.name} is {node.state}'] = None
        elif batch is not None and len(under_way) + len(begins) >= batch:
            holds[f'{batch} nodes are out of work, and batch is {batch}'] = None
        elif node.state is NodeState.READY and spare <= 0:
            holds[f'{ready} nodes of {group.name} are ready, none can go: {pace(group)}'] = None
        else:
            spare -= node.state is NodeState.READY
            ready -= node.state is NodeState.READY
            begins.append(node)
    begun = {node.id for node in begins}
    return ResetRound(
        begins=tuple(begins),
        under_way=tuple(under_way),
        waiting=tuple(node for node in waiting if node.id not in begun),
        failed=tuple(failed),
        holds=tuple(holds),
    )
