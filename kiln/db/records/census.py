"""Census of a store: the numbers of its records, for monitoring."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from kiln.clusters.models import NodeState, OperationKind, OperationState
from kiln.clusters.spec import ClusterSpec
from kiln.clusters.status import ClusterStatus, status_of
from kiln.db.database import Database
from kiln.db.records.base import Records
from kiln.db.records.operations import OPEN, waiting
from kiln.db.tables.codec import loads
from kiln.db.tables.rows import read
from kiln.db.tables.schema import cluster, lease, node, operation

#: The specs that one query reads; a statement can have only so many parameters.
_SPECS = 500
_READY = NodeState.READY.value


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Census:
    """The numbers of records at one time; what is not there is not counted."""

    clusters: Mapping[ClusterStatus, int]
    #: Without those that are gone.
    nodes: Mapping[NodeState, int]
    #: Operations that have not ended.
    operations: Mapping[tuple[OperationKind, OperationState], int]
    leases_held: int
    #: Leases that expired without a release: their owners died.
    leases_expired: int
    #: Clusters with work that no conductor holds.
    work_waiting: int
    #: The revision of the tables.
    revision: str
    size_bytes: int


class Censuses(Records):
    """Counts the records of a store with few queries, whatever their number."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        # The desired number of nodes never changes within a generation of a cluster.
        self._desired: dict[tuple[str, int], int] = {}

    def take(self) -> Census:
        """Count the records now; called by one thread at a time.

        :raises StoreError: the store cannot be read.
        """
        with self._database.reading() as connection:
            nodes = list(connection.execute(_NODES))
            held, expired = connection.execute(_leases(self._database.now)).one()
            return Census(
                clusters=self._clusters(connection, nodes),
                nodes=_sums(read(_nodes, nodes)),
                operations=dict(read(_operations, connection.execute(_OPERATIONS))),
                leases_held=held or 0,
                leases_expired=expired or 0,
                work_waiting=connection.scalar(_work(self._database.now)) or 0,
                revision=connection.scalar(_REVISION) or '',
                size_bytes=self._database.size_bytes(connection),
            )

    def _clusters(
        self, connection: sa.Connection, nodes: Iterable[Any]
    ) -> Mapping[ClusterStatus, int]:
        ready = {cluster_id: count for cluster_id, state, count in nodes if state == _READY}
        rows = list(connection.execute(_CLUSTERS))
        self._desired = desired = self._read_desired(
            connection, {(one[0], one[1]) for one in rows}
        )
        return Counter(
            status_of(
                state and OperationState(state),
                paused=paused,
                whole=not trouble
                and (elsewhere or ready.get(cluster_id, 0) == desired[cluster_id, generation]),
            )
            for cluster_id, generation, paused, trouble, elsewhere, state in rows
        )

    def _read_desired(
        self, connection: sa.Connection, wanted: set[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        """Return the desired numbers of nodes; specs that were read before are not read again."""
        desired = {key: count for key, count in self._desired.items() if key in wanted}
        missing = [cluster_id for cluster_id, _ in wanted - desired.keys()]
        for start in range(0, len(missing), _SPECS):
            question = sa.select(cluster.c.id, cluster.c.generation, cluster.c.spec)
            some = question.where(cluster.c.id.in_(missing[start : start + _SPECS]))
            for cluster_id, generation, spec in connection.execute(some):
                desired[cluster_id, generation] = loads(ClusterSpec, spec).count
        return desired


def _nodes(row: Any) -> tuple[NodeState, int]:
    _, state, count = row
    return NodeState(state), count


def _operations(row: Any) -> tuple[tuple[OperationKind, OperationState], int]:
    kind, state, count = row
    return (OperationKind(kind), OperationState(state)), count


def _sums(pairs: Iterable[tuple[NodeState, int]]) -> Mapping[NodeState, int]:
    sums: Counter[NodeState] = Counter()
    for state, count in pairs:
        sums[state] += count
    return sums


def _leases(now: sa.ColumnElement[float]) -> Any:
    def number(*which: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
        return sa.func.sum(sa.case((sa.and_(lease.c.owner != '', *which), 1), else_=0))

    # A lease that was released unsettled keeps its owner, but has expiry time 0.
    over = (lease.c.expires > 0, lease.c.expires < now)
    return sa.select(number(lease.c.expires >= now), number(*over))


def _work(now: sa.ColumnElement[float]) -> Any:
    return sa.select(sa.func.count()).select_from(waiting(now).subquery())


_NODES = (
    sa.select(node.c.cluster_id, node.c.state, sa.func.count())
    .where(node.c.state != NodeState.GONE.value)
    .group_by(node.c.cluster_id, node.c.state)
)
_OPERATIONS = (
    sa.select(operation.c.kind, operation.c.state, sa.func.count())
    .where(OPEN)
    .group_by(operation.c.kind, operation.c.state)
)
_NEWEST = (
    sa.select(operation.c.state)
    .where(operation.c.cluster_id == cluster.c.id)
    .order_by(operation.c.seq.desc())
    .limit(1)
    .scalar_subquery()
)
_CLUSTERS = sa.select(
    cluster.c.id,
    cluster.c.generation,
    cluster.c.paused,
    cluster.c.trouble,
    cluster.c.driver_handle.is_not(None),
    _NEWEST,
)
_REVISION: sa.TextClause = sa.text('SELECT version_num FROM alembic_version')
