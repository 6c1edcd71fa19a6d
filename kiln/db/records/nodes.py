"""Nodes of clusters in the store."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import Node, NodeState
from kiln.db.records.base import Records
from kiln.db.tables.rows import NODE, read, text
from kiln.db.tables.schema import node as table

Counts = Mapping[NodeState, int]


class Nodes(Records):
    """The nodes of a store; the holder of the lease of their cluster writes them."""

    def of(self, cluster_id: str) -> tuple[Node, ...]:
        """Return all nodes of a cluster by name, including gone nodes."""
        mine = sa.select(table).where(table.c.cluster_id == cluster_id)
        return self._read(NODE.value, mine.order_by(table.c.name, table.c.id))

    def get(self, cluster_id: str, name_or_id: str) -> Node:
        """Return a node by id, or else by name.

        :raises ClusterNotFound: the cluster has no such node.
        """
        question = sa.select(table).where(
            table.c.cluster_id == cluster_id,
            sa.or_(table.c.id == name_or_id, table.c.name == name_or_id),
        )
        found = self._read(NODE.value, question)
        for node in sorted(found, key=lambda one: one.id != name_or_id):
            return node
        raise ClusterNotFound(f'Cannot find node {name_or_id!r} in cluster {cluster_id}.')

    def counts(self) -> Mapping[str, Counts]:
        """Return the number of nodes by cluster id and state."""
        question = sa.select(table.c.cluster_id, table.c.state, sa.func.count()).group_by(
            table.c.cluster_id, table.c.state
        )
        counts: dict[str, dict[NodeState, int]] = {}
        with self._database.reading() as connection:
            for cluster_id, state, count in read(_count, connection.execute(question)):
                counts.setdefault(cluster_id, {})[state] = count
        return MappingProxyType({key: MappingProxyType(one) for key, one in counts.items()})


def _count(row: Any) -> tuple[str, NodeState, int]:
    cluster_id, state, count = row
    return cluster_id, NodeState(state), count


def mark(connection: sa.Connection, cluster_id: str, reasons: Mapping[str, str]) -> None:
    """Mark nodes for removal within a change; an empty reason removes the mark."""
    rows = [
        {'scope': cluster_id, 'node_id': node_id, 'why': text(why)}
        for node_id, why in reasons.items()
    ]
    if rows:
        connection.execute(_MARK, rows)


_MARK = (
    sa.update(table)
    .where(table.c.id == sa.bindparam('node_id'), table.c.cluster_id == sa.bindparam('scope'))
    .values(doomed=sa.bindparam('why'))
)
