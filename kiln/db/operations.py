"""Operations and their steps: what was asked, how far it has come, who could go on."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from types import MappingProxyType

import sqlalchemy as sa

from kiln.cluster_exceptions import ClusterBusy, ClusterChanged, ClusterNotFound
from kiln.cluster_models import Operation, OperationState, Step, StepState
from kiln.db.database import Database
from kiln.db.leases import shut_out
from kiln.db.rows import OPERATION, STEP, read
from kiln.db.schema import cluster, lease, step
from kiln.db.schema import operation as table

#: The ends after which an operation can go on; the others left nothing to be done.
_RETRIED = (OperationState.FAILED.value, OperationState.CANCELLED.value)
_OPEN = table.c.state.in_([state.value for state in OperationState if not state.ended])
#: What somebody cancels ends though its cluster is paused.
_RUNNABLE = (_OPEN, sa.or_(sa.not_(cluster.c.paused), table.c.cancelled))


class Operations:
    """The operations of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(self, operation: Operation, *, supersede: bool = False) -> None:
        """Enter an operation that changes nothing of what is wanted: a reboot, a deletion.

        It is in the store when this returns. With ``supersede`` operations under
        way are cancelled; their engine ends them, and goes on with this one.

        :raises ClusterBusy: another one is under way; the message names it.
        :raises ClusterNotFound: there is no such cluster.
        """
        with self._database.writing() as connection:
            shut_out(connection, operation.cluster_id)
            there = sa.select(cluster.c.id).where(cluster.c.id == operation.cluster_id)
            if connection.execute(there).first() is None:
                raise ClusterNotFound(f'Cannot find cluster {operation.cluster_id!r}.')
            enter(connection, operation, supersede=supersede)

    def cancel(self, operation_id: str) -> Operation:
        """Have an operation stopped; return it as it is now.

        Returns before it has stopped: its engine ends it. Safe to repeat; one that
        has ended stays as it is.

        :raises ClusterNotFound: there is no such operation.
        """
        stopping = sa.update(table).where(table.c.id == operation_id, _OPEN)
        with self._database.writing() as connection:
            connection.execute(stopping.values(cancelled=True))
            return self._find(connection, operation_id)

    def reopen(self, operation_id: str, *, deadline_at: float) -> Operation:
        """Have an operation go on that has failed or was cancelled; return it as it is now.

        It keeps its id, and its journal, so what was done is not done again.

        :raises ClusterBusy: it has not ended.
        :raises ClusterChanged: there is a newer one, or it came to another end.
        :raises ClusterNotFound: there is no such operation, or its cluster is gone.
        """
        with self._database.writing() as connection:
            there = self._find(connection, operation_id)
            shut_out(connection, there.cluster_id)
            there = self._find(connection, operation_id)
            newest = connection.scalar(newest_seqs().where(cluster.c.id == there.cluster_id))
            if newest is None:
                raise ClusterNotFound(f'Cannot find cluster {there.cluster_id!r}.')
            if not there.state.ended:
                raise ClusterBusy(_busy('retry', there))
            mine = sa.and_(table.c.id == operation_id, table.c.seq == newest)
            going_on = dataclasses.replace(
                there, state=OperationState.QUEUED, deadline_at=deadline_at, cancelled=False,
                args={**there.args, 'retried_at': self._database.clock.time()},
                started_at=None, ended_at=None, cause=None,
            )  # fmt: skip
            retried = sa.update(table).where(mine, table.c.state.in_(_RETRIED))
            if not connection.execute(retried.values(**OPERATION.row(going_on))).rowcount:
                why = f'it has ended as {there.state.value}, so nothing is left of it to be done'
                if there.state.value in _RETRIED:
                    why = 'another one was entered since'
                raise ClusterChanged(
                    f'Cannot retry operation {there.id} ({there.kind.value}) of cluster '
                    f'{there.cluster_id}: {why}.'
                )
            return going_on

    def get(self, operation_id: str) -> Operation:
        """Return one operation.

        :raises ClusterNotFound: there is no such operation.
        """
        with self._database.reading() as connection:
            return self._find(connection, operation_id)

    def of(self, cluster_id: str, *, limit: int = 100) -> tuple[Operation, ...]:
        """Return the operations of a cluster, also of one that is gone; the newest first."""
        question = sa.select(table).where(table.c.cluster_id == cluster_id)
        return self._read(question.order_by(table.c.seq.desc()).limit(limit))

    def open(self, cluster_id: str) -> tuple[Operation, ...]:
        """Return those of a cluster that have not ended, the oldest first."""
        question = sa.select(table).where(table.c.cluster_id == cluster_id, _OPEN)
        return self._read(question.order_by(table.c.seq))

    def newest(self) -> Mapping[str, Operation]:
        """Return the newest operation of each living cluster, by the cluster's id."""
        found = self._read(sa.select(table).where(table.c.seq.in_(newest_seqs())))
        return MappingProxyType({one.cluster_id: one for one in found})

    def has_work(self, cluster_id: str) -> bool:
        """Whether there is something to be done for a cluster now, whoever is at it."""
        question = (
            sa.select(table.c.id)
            .join(cluster, cluster.c.id == table.c.cluster_id)
            .where(table.c.cluster_id == cluster_id, *_RUNNABLE)
        )
        with self._database.reading() as connection:
            return connection.execute(question.limit(1)).first() is not None

    def runnable(self, *, besides: Collection[str] = (), limit: int = 100) -> tuple[str, ...]:
        """Return the clusters that have work and nobody at it, the longest waiting first.

        They have an operation that has not ended, and their lease is over. One that
        is paused has only the work to end what was cancelled. Another engine may be
        faster, so claim each before you act; what did not fit is named once you have.
        """
        question = (
            sa.select(table.c.cluster_id)
            .join(cluster, cluster.c.id == table.c.cluster_id)
            .join(lease, lease.c.scope == table.c.cluster_id)
            .where(*_RUNNABLE, lease.c.expires < self._database.now)
            .group_by(table.c.cluster_id)
            .order_by(sa.func.min(table.c.seq))
            # A statement may not name as many as a caller may leave out.
            .limit(limit + len(besides))
        )
        with self._database.reading() as connection:
            found = connection.scalars(question)
            return tuple(one for one in found if one not in besides)[:limit]

    def _read(self, question: sa.Select[tuple[object, ...]]) -> tuple[Operation, ...]:
        with self._database.reading() as connection:
            return read(OPERATION.value, connection.execute(question))

    def _find(self, connection: sa.Connection, operation_id: str) -> Operation:
        question = sa.select(table).where(table.c.id == operation_id)
        for operation in read(OPERATION.value, connection.execute(question)):
            return operation
        raise ClusterNotFound(f'Cannot find operation {operation_id!r}.')


class Journal:
    """The steps of operations; who holds the lease of their cluster writes them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, operation_id: str) -> tuple[Step, ...]:
        """Return all steps of an operation, in the order in which they began."""
        return self._read(step.c.operation_id == operation_id)

    def open(self, operation_id: str) -> tuple[Step, ...]:
        """Return the steps that were intended, and of which nobody knows more."""
        return self._read(
            step.c.operation_id == operation_id, step.c.state == StepState.INTENT.value
        )

    def _read(self, *which: sa.ColumnElement[bool]) -> tuple[Step, ...]:
        question = sa.select(step).where(*which).order_by(step.c.started_at, step.c.id)
        with self._database.reading() as connection:
            return read(STEP.value, connection.execute(question))


def enter(connection: sa.Connection, operation: Operation, *, supersede: bool = False) -> None:
    """Write a new operation, within a change.

    :raises ClusterBusy: another one is under way, and is not to be superseded.
    """
    others = sa.and_(table.c.cluster_id == operation.cluster_id, _OPEN)
    if supersede:
        connection.execute(sa.update(table).where(others).values(cancelled=True))
    else:
        question = sa.select(table).where(others).order_by(table.c.seq)
        for other in read(OPERATION.value, connection.execute(question)):
            raise ClusterBusy(_busy(operation.kind.value, other))
    connection.execute(sa.insert(table), OPERATION.row(operation))


def _busy(verb: str, other: Operation) -> str:
    return (
        f'Cannot {verb} cluster {other.cluster_id}: operation {other.id} ({other.kind.value}) is '
        f'{other.state.value}.'
    )


def put_off(connection: sa.Connection, cluster_id: str, *, since: float, at: float) -> None:
    """Put off the deadlines of a cluster by the time that it was paused, within a change."""
    open_ones = sa.select(table).where(table.c.cluster_id == cluster_id, _OPEN)
    for operation in read(OPERATION.value, connection.execute(open_ones)):
        if operation.deadline_at:
            lost = max(0.0, at - max(since, operation.created_at))
            mine = sa.update(table).where(table.c.id == operation.id)
            connection.execute(mine.values(deadline_at=operation.deadline_at + lost))


def newest_seqs() -> sa.Select[tuple[int]]:
    """Return the question which operations the living clusters have their status from."""
    return (
        sa.select(sa.func.max(table.c.seq))
        .join(cluster, cluster.c.id == table.c.cluster_id)
        .group_by(table.c.cluster_id)
    )
