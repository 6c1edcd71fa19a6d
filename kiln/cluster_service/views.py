"""Views of a cluster: its newest operation, nodes and counts, for display."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from kiln.clusters.models import Cause, Cluster, Node, NodeState, Operation
from kiln.clusters.status import status_of


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """The conductor of a cluster, and when it was last heard from."""

    #: The conductor that holds the lease, or held it when it died; empty if nobody does.
    worker: str = ''
    #: True if the worker is certain to be gone.
    died: bool = False
    #: Seconds since the worker renewed its lease last, and until another one can take over; by
    #: the clock of the store, which need not be that of this host.
    silent_s: float | None = None
    expires_s: float = 0.0
    #: By backend, why machines of the cluster cannot be polled at present.
    unseen: Mapping[str, Cause] = dataclasses.field(default_factory=dict)
    #: True if a conductor polls the settled clusters of the site.
    watched: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClusterView:
    """A cluster, its newest operation, and the number of nodes in each state."""

    cluster: Cluster
    operation: Operation | None
    counts: Mapping[NodeState, int]
    #: None if they were not requested.
    nodes: tuple[Node, ...] | None = None

    @classmethod
    def of(
        cls, cluster: Cluster, nodes: tuple[Node, ...], operation: Operation | None
    ) -> ClusterView:
        """Return the view of a cluster with all nodes that are not gone."""
        counts = MappingProxyType(collections.Counter(node.state for node in nodes))
        return cls(cluster=cluster, operation=operation, counts=counts, nodes=nodes)

    @property
    def settled(self) -> bool:
        """True if no operation is under way."""
        return self.operation is None or self.operation.state.ended

    @property
    def ready(self) -> int:
        """The number of ready nodes."""
        return self.counts.get(NodeState.READY, 0)

    @property
    def wanted(self) -> int:
        """The desired number of nodes."""
        return sum(group.shape.count for group in self.cluster.spec.groups)

    @property
    def state(self) -> str:
        """One word for its state; computed, never stored."""
        complete = self.ready == self.wanted or self.cluster.built_elsewhere
        return status_of(
            None if self.operation is None else self.operation.state,
            paused=self.cluster.paused,
            whole=complete and self.cluster.trouble is None,
        ).value
