"""Room for nodes: limits of nodes, checked within the change that needs more of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import sqlalchemy as sa

from kiln.clusters.limits import NodeLimits, most_nodes
from kiln.clusters.models import Cluster, Operation
from kiln.db.tables.schema import cluster as table
from kiln.db.tables.schema import counter


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """The room that a cluster needs for an operation."""

    limits: NodeLimits
    cluster: Cluster
    nodes: int

    @classmethod
    def for_operation(cls, limits: NodeLimits, cluster: Cluster, operation: Operation) -> Room:
        """Return what an operation needs, by the cluster as it is after the change."""
        return cls(limits=limits, cluster=cluster, nodes=most_nodes(cluster, operation))

    def check(self, connection: sa.Connection) -> bool:
        """Return True if the cluster needs more room than it has, and there is enough.

        A cluster that needs no more is not refused: limits can be lowered at any time.

        :raises TooManyNodes: there is not enough.
        """
        limits, name, mine = self.limits, self.cluster.name, table.c.id == self.cluster.id
        found = connection.execute(sa.select(table.c.nodes, table.c.owner).where(mine)).first()
        has = found.nodes if found else 0
        owner = limits.owner_of(self.cluster)
        grows = self.nodes > has
        moves = found is not None and (found.owner or limits.site_owner) != owner
        if grows:
            limits.check_cluster(name, self.nodes)
        if grows or moves:
            nodes = max(self.nodes, has)
            others = self._others(connection)
            limits.check_owner(name, nodes, owner, nodes + others.get(owner, 0))
            limits.check_site(name, nodes, nodes + sum(others.values()))
        return grows

    def _others(self, connection: sa.Connection) -> Mapping[str | None, int]:
        """Return the nodes of all other clusters, by owner."""
        question = sa.select(table.c.owner, sa.func.sum(table.c.nodes)).group_by(table.c.owner)
        counts: dict[str | None, int] = {}
        for name, count in connection.execute(question.where(table.c.id != self.cluster.id)):
            owner = name or self.limits.site_owner
            # A sum is a decimal number in some databases.
            counts[owner] = counts.get(owner, 0) + int(count)
        return counts

    def reserve(self, connection: sa.Connection) -> None:
        """Take the room within a change, unless the cluster has it already.

        :raises TooManyNodes: there is not enough.
        """
        # Until the commit, other changes that need room wait here, and then see this one.
        lock = sa.select(counter.c.last).where(counter.c.name == 'nodes').with_for_update()
        connection.execute(lock)
        if self.check(connection):
            mine = table.c.id == self.cluster.id
            connection.execute(sa.update(table).where(mine).values(nodes=self.nodes))
