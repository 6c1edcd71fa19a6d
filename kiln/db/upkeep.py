"""Health check and purge of the database, for operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import sqlalchemy as sa

from kiln.clusters.models import Lease, NodeState, OperationState
from kiln.db.database import Database
from kiln.db.records.operations import newest_seqs
from kiln.db.soundness import Fault, faults
from kiln.db.tables import schema
from kiln.db.tables.rows import LEASE, read
from kiln.db.tokens import BOUND

_ENDED = [state.value for state in OperationState if state.ended]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """The result of a health check."""

    where: str
    #: The revision of the tables; None without tables, or if they cannot be read.
    revision: str | None
    #: What is wrong with the database as a whole.
    faults: tuple[Fault, ...] = ()
    #: The revision that this version of kiln needs.
    wanted: str = schema.REVISION
    #: Rows by table; empty, as are the leases, if the database cannot be used.
    counts: Mapping[str, int]
    #: Leases that conductors hold now.
    held: tuple[Lease, ...] = ()
    #: Leases that expired without a release: their owners died.
    dangling: tuple[Lease, ...]
    #: Secrets that a former version wrote, so that another row could use them.
    unbound: int = 0

    @property
    def usable(self) -> bool:
        """True if this version of kiln can use the database."""
        return self.revision == self.wanted and not self.faults


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Purged:
    """The numbers of removed rows."""

    operations: int
    nodes: int
    events: int
    tombstones: int


def revision_of(database: Database) -> str | None:
    """Return the revision of the tables, or None without tables.

    :raises StoreError: the database cannot be used.
    """
    with database.reading() as connection:
        if not sa.inspect(connection).has_table('alembic_version'):
            return None
        found: str | None = connection.scalar(sa.text('SELECT version_num FROM alembic_version'))
        return found


def check(database: Database) -> Health:
    """Check the database without changing it.

    :raises StoreError: the database cannot be reached now.
    """
    if found := faults(database):
        return Health(where=database.name, revision=None, faults=found, counts={}, dangling=())
    revision = revision_of(database)
    if revision != schema.REVISION:
        return Health(where=database.name, revision=revision, counts={}, dangling=())
    lease = schema.lease
    # A lease that was released unsettled keeps its owner, but has expiry time 0.
    over = sa.and_(lease.c.owner != '', lease.c.expires > 0, lease.c.expires < database.now)
    held = sa.and_(lease.c.owner != '', lease.c.expires >= database.now)
    with database.reading() as connection:
        counts = {
            table.name: connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
            for table in schema.metadata.sorted_tables
            if table is not schema.counter
        }
        question = sa.select(lease).order_by(lease.c.scope)
        holding = read(LEASE.value, connection.execute(question.where(held)))
        dangling = read(LEASE.value, connection.execute(question.where(over)))
        is_bound = schema.secret.c.value.startswith(BOUND, autoescape=True)
        secrets = sa.select(sa.func.count()).select_from(schema.secret)
        unbound = connection.scalar(secrets.where(~is_bound)) or 0
    return Health(
        where=database.name,
        revision=revision,
        counts=counts,
        held=tuple(holding),
        dangling=dangling,
        unbound=unbound,
    )


def purge(database: Database, older_than_s: float) -> Purged:
    """Remove old rows: ended operations with their steps, events, receipts, gone nodes.

    Operations that have not ended stay, and so do rows that give an existing cluster its
    status, whatever their age. Safe to repeat.

    :raises StoreError: some of the rows remain; purge again.
    """
    before = database.clock.time() - older_than_s
    operation, node, event = schema.operation, schema.node, schema.event
    return Purged(
        operations=_delete(
            database,
            operation,
            operation.c.state.in_(_ENDED),
            operation.c.ended_at < before,
            operation.c.seq.not_in(newest_seqs()),
        ),
        nodes=_delete(database, node, node.c.state == NodeState.GONE.value, node.c.since < before),
        events=_delete(database, event, event.c.at < before),
        tombstones=_purge_tombstones(database, before),
    )


def _delete(database: Database, table: sa.Table, *which: sa.ColumnElement[bool]) -> int:
    with database.writing() as connection:
        return connection.execute(sa.delete(table).where(*which)).rowcount


def _purge_tombstones(database: Database, before: float) -> int:
    stone = schema.tombstone
    gone = sa.select(stone.c.cluster_id).where(stone.c.deleted_at < before)
    with database.writing() as connection:
        for column in (schema.holding.c.cluster_id, schema.lease.c.scope):
            connection.execute(sa.delete(column.table).where(column.in_(gone)))
        return connection.execute(sa.delete(stone).where(stone.c.deleted_at < before)).rowcount
