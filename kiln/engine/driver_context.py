"""Contexts of driver calls: what a site lets its cluster drivers use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from kiln.cluster_drivers.values import Context, NoSecrets, Secrets
from kiln.clusters.exceptions import ClusterDriverError, ClusterNotFound
from kiln.clusters.models import Cluster, Node, NodeState
from kiln.clusters.spec import ClusterTemplate, MachineSpec
from kiln.db.store import Store

if TYPE_CHECKING:
    from kiln.compute.facade import Compute


class OpenBackends(Protocol):
    """The compute backends of a site."""

    def get(self, name: str | None) -> Compute:
        """Return a backend."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DriverContexts:
    """Makes the context of each call of a cluster driver; the same for every caller."""

    store: Store
    backends: OpenBackends
    site: str = 'kiln'
    secrets: Secrets = dataclasses.field(default_factory=NoSecrets, repr=False)
    #: The name of the credentials of clusters that name none.
    credentials: str | None = None
    defaults: MachineSpec = dataclasses.field(default_factory=MachineSpec)

    def context(
        self,
        cluster: Cluster,
        *,
        nodes: tuple[Node, ...],
        join_key: Callable[[], bytes],
        template: ClusterTemplate | None,
        operation: str | None = None,
    ) -> Context:
        """Return the context of a call about a cluster.

        :param nodes: all nodes that are not gone; see :func:`existing`.
        :param template: the result of :meth:`template`, which callers can keep: it reads
            the store.
        :param operation: the id of the operation that the call is made for.
        """
        return Context(
            site=self.site,
            credentials=cluster.spec.credentials or self.credentials,
            secrets=self.secrets,
            template=template,
            operation=operation,
            defaults=self.defaults,
            nodes=nodes,
            join_key=join_key,
            console=self._console,
        )

    def template(self, cluster: Cluster) -> ClusterTemplate | None:
        """Return the template that a cluster names, as it is saved now; None without one."""
        if cluster.spec.template is None:
            return None
        try:
            return self.store.templates.get(cluster.spec.template)
        except ClusterNotFound:
            return None

    def _console(self, node: Node) -> str:
        """Return what a node wrote on its console; blocks.

        :raises ClusterDriverError: the node has no machine.
        :raises AmphoraComputeError: the log cannot be read.
        """
        if node.compute_id is None:
            raise ClusterDriverError(
                f'Cannot read the console of node {node.name}: it has no machine.'
            )
        text: str = self.backends.get(node.backend).console_log(node.compute_id).result()
        return text


def existing(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes that are not gone."""
    return tuple(node for node in nodes if node.state is not NodeState.GONE)
