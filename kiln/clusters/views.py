"""What is known of a cluster, put together for who looks."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kiln.cluster_models import Cause, Cluster, Node, NodeState, Operation, OperationState

#: States of nodes about which somebody may ask why.
_ODD = frozenset({NodeState.FAILED, NodeState.UNHEALTHY, NodeState.UNKNOWN})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClusterView:
    """A cluster, the newest operation on it, and how many nodes are in which state."""

    cluster: Cluster
    operation: Operation | None
    counts: Mapping[NodeState, int]
    #: None where they were not asked for.
    nodes: tuple[Node, ...] | None = None

    @classmethod
    def of(
        cls, cluster: Cluster, nodes: tuple[Node, ...], operation: Operation | None
    ) -> ClusterView:
        """Return the view of a cluster with all nodes that are not gone."""
        counts = MappingProxyType(collections.Counter(node.state for node in nodes))
        return cls(cluster=cluster, operation=operation, counts=counts, nodes=nodes)

    @property
    def ready(self) -> int:
        """How many nodes do their work."""
        return self.counts.get(NodeState.READY, 0)

    @property
    def wanted(self) -> int:
        """How many nodes there are to be."""
        return sum(group.shape.count for group in self.cluster.spec.groups)

    @property
    def state(self) -> str:
        """One word for how it is; computed, and stored nowhere."""
        operation = self.operation
        if operation is not None and not operation.state.ended:
            return 'paused' if self.cluster.paused else operation.state.value
        if operation is not None and operation.state is OperationState.FAILED:
            return 'failed'
        return 'ready' if self.ready == self.wanted else 'degraded'


def why(view: ClusterView, now: float) -> Iterator[str]:
    """Yield why a cluster is as it is: the outermost reason first, a step in for each cause."""
    cluster, operation = view.cluster, view.operation
    yield f'{cluster.name}: {view.state}, {view.ready} of {view.wanted} nodes ready'
    if cluster.paused:
        yield f"  it is paused; kiln does nothing until 'kiln cluster resume {cluster.name}'"
    if operation is not None:
        yield f'  {_described(operation, now)}'
        yield from chain(operation.cause, '    ')
    for node in view.nodes or ():
        if node.cause is not None or node.state in _ODD:
            since = f', {_ago(now - node.since)}' if node.since else ''
            yield f'  node {node.name} ({node.group}): {node.state.value}{since}'
            yield from chain(node.cause, '    ')


def chain(cause: Cause | None, indent: str = '') -> Iterator[str]:
    """Yield a cause and those below it, each a step further in."""
    while cause is not None:
        yield f'{indent}{cause.message}'
        if cause.hint:
            yield f'{indent}  -> {cause.hint}'
        cause, indent = cause.because, f'{indent}  '


def _described(operation: Operation, now: float) -> str:
    words = f'{operation.kind.value} {operation.state.value}'
    if operation.state.ended:
        return f'{words} {_ago(now - (operation.ended_at or now))}'
    if operation.deadline_at:
        words += f', {_span(max(0.0, operation.deadline_at - now))} until its deadline'
    return words


def _ago(seconds: float) -> str:
    return f'{_span(max(0.0, seconds))} ago'


def _span(seconds: float) -> str:
    if seconds < 120:
        return f'{seconds:.0f} s'
    return f'{seconds / 60:.0f} min' if seconds < 7200 else f'{seconds / 3600:.0f} h'
