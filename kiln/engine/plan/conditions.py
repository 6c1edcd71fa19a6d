"""The conditions of a cluster, computed from its state; pure.

Conditions are not stored: they follow from the newest operation, the nodes and the
lease. So a cluster without a worker is never reported as in progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from kiln.clusters.models import (
    Cause,
    Cluster,
    Condition,
    ConditionKind,
    Lease,
    Node,
    NodeState,
    Operation,
    OperationState,
)
from kiln.engine.plan.changes import going
from kiln.engine.plan.diff import outdated
from kiln.engine.plan.repair import remediate

_SICK = frozenset({NodeState.UNHEALTHY, NodeState.FAILED, NodeState.UNKNOWN})
_UNKNOWN: Mapping[str, str] = MappingProxyType({})


def conditions(
    cluster: Cluster,
    nodes: Iterable[Node],
    operation: Operation | None,
    now: float,
    *,
    lease: Lease | None = None,
    made_with: Mapping[str, str] = _UNKNOWN,
) -> tuple[Condition, ...]:
    """Return the conditions of a cluster, each with its cause if it has one.

    :param operation: the newest one, ended or not.
    :param lease: the lease of the cluster, which has not expired; None means that no conductor
        works on it.
    :param made_with: by group, the digest of its current spec; no entry means no drift.
    """
    there = [node for node in nodes if node.state is not NodeState.GONE]
    live = [node for node in there if not going(node)]
    at_work = operation is not None and not operation.state.ended
    found = [
        *_ready(cluster, live, operation),
        *(_progress(cluster, operation, lease) if operation and at_work else ()),
        *(() if at_work else _brake(cluster, there, now)),
        *_degraded(cluster, live, operation, at_work),
        *_drifted(live, made_with),
    ]
    if cluster.paused:
        found.append(Condition(kind=ConditionKind.PAUSED))
    return tuple(found)


def _short(cluster: Cluster, live: Sequence[Node]) -> str:
    """Return which groups have too few ready nodes, for people; empty if none has."""
    if cluster.built_elsewhere:
        return ''
    ready: dict[str, int] = {}
    for node in live:
        ready[node.group] = ready.get(node.group, 0) + (node.state is NodeState.READY)
    return ', '.join(
        f'{ready.get(group.name, 0)} of {group.shape.count} in {group.name}'
        for group in cluster.spec.groups
        if ready.get(group.name, 0) < group.shape.count
    )


def _ready(
    cluster: Cluster, live: Sequence[Node], operation: Operation | None
) -> Iterator[Condition]:
    ready = not _short(cluster, live)
    if cluster.built_elsewhere:
        # kiln has no record of its nodes; its driver reports the end of each operation.
        ready = cluster.trouble is None and _is_done(operation)
    if ready:
        yield Condition(kind=ConditionKind.READY)


def _progress(cluster: Cluster, operation: Operation, lease: Lease | None) -> Iterator[Condition]:
    if cluster.paused:
        return
    if lease is None or not lease.owner:
        cause = Cause(
            code='nobody_works',
            message=f'{operation.kind.value} of {cluster.name} waits: nobody works on it now.',
            hint='Check that a conductor is running; it continues within seconds.',
        )
        yield Condition(kind=ConditionKind.BLOCKED, cause=cause)
    elif operation.state is OperationState.WAITING:
        yield Condition(kind=ConditionKind.BLOCKED, cause=operation.cause)
    else:
        yield Condition(kind=ConditionKind.PROGRESSING)


def _brake(cluster: Cluster, nodes: Sequence[Node], now: float) -> Iterator[Condition]:
    """Report nodes that are given up but not replaced."""
    holds = {}
    for group in cluster.spec.groups:
        found = remediate(group, [node for node in nodes if node.group == group.name], now)
        if found.hold and not found.victims:
            holds[group.name] = found.hold
    if holds:
        message = '; '.join(f'{name}: {hold}' for name, hold in holds.items())
        hint = 'Find out why so many are down. Replace them by name, or raise max_unhealthy.'
        cause = Cause(code='held', message=f'{message}.', hint=hint)
        yield Condition(kind=ConditionKind.BLOCKED, cause=cause)


def _is_done(operation: Operation | None) -> bool:
    return operation is not None and operation.state is OperationState.SUCCEEDED


def _degraded(
    cluster: Cluster, live: Sequence[Node], operation: Operation | None, at_work: bool
) -> Iterator[Condition]:
    sick = sorted((node for node in live if node.state in _SICK), key=lambda node: node.name)
    # While an operation is under way, missing nodes are being built.
    short = '' if at_work else _short(cluster, live)
    if cluster.trouble is not None and not at_work:
        yield Condition(kind=ConditionKind.DEGRADED, cause=cluster.trouble)
    elif sick:
        names = ', '.join(f'{node.name} is {node.state.value}' for node in sick[:3])
        more = f' and {len(sick) - 3} more are unhealthy' if len(sick) > 3 else ''
        inner = next((node.cause for node in sick if node.cause), None)
        cause = Cause(code='sick_nodes', message=f'{names}{more}.', because=inner)
        yield Condition(kind=ConditionKind.DEGRADED, cause=cause)
    elif short:
        cause = Cause(code='too_few', message=f'Too few nodes are ready: {short}.')
        yield Condition(kind=ConditionKind.DEGRADED, cause=cause)
    elif cluster.built_elsewhere and operation and not (at_work or _is_done(operation)):
        yield Condition(kind=ConditionKind.DEGRADED, cause=operation.cause)


def _drifted(live: Sequence[Node], made_with: Mapping[str, str]) -> Iterator[Condition]:
    if old := [node for node in live if outdated(node, made_with.get(node.group, ''))]:
        message = f'{len(old)} of {len(live)} nodes were built from an older spec.'
        hint = 'Upgrade the cluster to replace them one by one.'
        cause = Cause(code='drift', message=message, hint=hint)
        yield Condition(kind=ConditionKind.DRIFTED, cause=cause)
