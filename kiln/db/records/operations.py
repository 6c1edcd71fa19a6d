"""Operations and their steps in the store: submit, cancel, reopen and query."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from kiln.clusters.exceptions import ClusterBusy, ClusterChanged, ClusterNotFound
from kiln.clusters.models import Operation, OperationKind, OperationState, Step, StepState
from kiln.db.leases import shut_out
from kiln.db.records.base import Records
from kiln.db.records.room import Room
from kiln.db.tables.rows import OPERATION, STEP, read
from kiln.db.tables.schema import cluster, lease, step
from kiln.db.tables.schema import operation as table

#: The final states after which an operation can be reopened.
_RETRIED = (OperationState.FAILED.value, OperationState.CANCELLED.value)
#: True for operations that have not ended.
OPEN = table.c.state.in_([state.value for state in OperationState if not state.ended])
#: A cancelled operation ends even while its cluster is paused.
_RUNNABLE = (OPEN, sa.or_(sa.not_(cluster.c.paused), table.c.cancelled))


class Operations(Records):
    """The operations of a store."""

    def refuse_other(self, cluster_id: str, kind: OperationKind) -> None:
        """Return if no operation is running that another one would have to wait for.

        :raises ClusterBusy: one is; the message names it.
        """
        with self._database.reading() as connection:
            _refuse_other(connection, cluster_id, kind)

    def submit(
        self, operation: Operation, *, supersede: bool = False, room: Room | None = None
    ) -> Operation:
        """Submit an operation that keeps the desired state, such as a reboot or a deletion.

        Return it; it is in the store by then. With ``supersede`` running operations are
        cancelled; the engine ends them before it starts this one. But a deletion joins one
        that is running: nothing is written, and the running one is returned.

        :raises TooManyNodes: there is not enough ``room``.
        :raises ClusterBusy: another operation is running; the message names it.
        :raises ClusterNotFound: the cluster does not exist.
        """
        with self._database.writing() as connection:
            shut_out(connection, operation.cluster_id)
            there = sa.select(cluster.c.id).where(cluster.c.id == operation.cluster_id)
            if connection.execute(there).first() is None:
                raise ClusterNotFound(f'Cannot find cluster {operation.cluster_id!r}.')
            if supersede:
                for other in _open_ones(connection, operation.cluster_id):
                    if _deletes_as(other, operation):
                        return other
            enter(connection, operation, supersede=supersede)
            if room is not None:
                room.reserve(connection)
            return operation

    def cancel(self, operation_id: str) -> Operation:
        """Request the cancellation of an operation; return its current state.

        Returns before the operation has stopped: its engine ends it. Safe to repeat; an
        ended operation stays unchanged.

        :raises ClusterNotFound: the operation does not exist.
        """
        stopping = sa.update(table).where(table.c.id == operation_id, OPEN)
        with self._database.writing() as connection:
            connection.execute(stopping.values(cancelled=True))
            return self._find(connection, operation_id)

    def reopen(
        self, operation_id: str, *, deadline_at: float, room: Room | None = None
    ) -> Operation:
        """Reopen an operation that failed or was cancelled; return its new state.

        It keeps its id and its journal, so finished steps are not repeated.

        :raises TooManyNodes: there is not enough ``room``.
        :raises ClusterBusy: the operation has not ended.
        :raises ClusterChanged: a newer operation exists, or this one ended in another state.
        :raises ClusterNotFound: the operation does not exist, or its cluster is gone.
        """
        with self._database.writing() as connection:
            there = self._find(connection, operation_id)
            shut_out(connection, there.cluster_id)
            there = self._find(connection, operation_id)
            newest = connection.scalar(newest_seqs().where(cluster.c.id == there.cluster_id))
            if newest is None:
                raise ClusterNotFound(f'Cannot find cluster {there.cluster_id!r}.')
            if not there.state.ended:
                raise ClusterBusy(_busy(connection, 'retry', there))
            now = self._database.clock.time()
            mine = sa.and_(table.c.id == operation_id, table.c.seq == newest)
            going_on = dataclasses.replace(
                there, state=OperationState.QUEUED, deadline_at=deadline_at, cancelled=False,
                args={**there.args, 'retried_at': now}, created_at=min(there.created_at, now),
                started_at=None, ended_at=None, cause=None,
            )  # fmt: skip
            retried = sa.update(table).where(mine, table.c.state.in_(_RETRIED))
            if not connection.execute(retried.values(**OPERATION.row(going_on))).rowcount:
                why = f'it has ended as {there.state.value}, so nothing is left to do'
                if there.state.value in _RETRIED:
                    why = 'a newer operation was submitted'
                raise ClusterChanged(
                    f'Cannot retry operation {there.id} ({there.kind.value}) of cluster '
                    f'{there.cluster_id}: {why}.'
                )
            # What failed before it was retried is not to fail it again.
            _begun_by(connection, operation_id, now)
            if room is not None:
                room.reserve(connection)
            return going_on

    def get(self, operation_id: str) -> Operation:
        """Return an operation.

        :raises ClusterNotFound: the operation does not exist.
        """
        with self._database.reading() as connection:
            return self._find(connection, operation_id)

    def of(self, cluster_id: str, *, limit: int = 100) -> tuple[Operation, ...]:
        """Return the operations of a cluster, also of a deleted one, newest first."""
        question = sa.select(table).where(table.c.cluster_id == cluster_id)
        return self._read(OPERATION.value, question.order_by(table.c.seq.desc()).limit(limit))

    def open(self, cluster_id: str) -> tuple[Operation, ...]:
        """Return the operations of a cluster that have not ended, oldest first."""
        question = sa.select(table).where(table.c.cluster_id == cluster_id, OPEN)
        return self._read(OPERATION.value, question.order_by(table.c.seq))

    def newest(self) -> Mapping[str, Operation]:
        """Return the newest operation of each existing cluster, by cluster id."""
        question = sa.select(table).where(table.c.seq.in_(newest_seqs()))
        found = self._read(OPERATION.value, question)
        return MappingProxyType({one.cluster_id: one for one in found})

    def has_work(self, cluster_id: str) -> bool:
        """Return True if a cluster has work now, even if an engine is working on it."""
        question = (
            sa.select(table.c.id)
            .join(cluster, cluster.c.id == table.c.cluster_id)
            .where(table.c.cluster_id == cluster_id, *_RUNNABLE)
        )
        with self._database.reading() as connection:
            return connection.execute(question.limit(1)).first() is not None

    def runnable(self, *, besides: Collection[str] = (), limit: int = 100) -> tuple[str, ...]:
        """Return the ids of clusters with work and without an engine, longest waiting first.

        They have an operation that has not ended, and their lease has expired. A paused
        cluster has work only if an operation was cancelled. Another engine can be faster,
        so claim each cluster before you act. Clusters beyond ``limit`` are returned once
        these are claimed.
        """
        question = (
            waiting(self._database.now)
            .order_by(sa.func.min(table.c.seq))
            # ``besides`` can have more ids than a statement can have parameters.
            .limit(limit + len(besides))
        )
        with self._database.reading() as connection:
            found = connection.scalars(question)
            return tuple(one for one in found if one not in besides)[:limit]

    def _find(self, connection: sa.Connection, operation_id: str) -> Operation:
        question = sa.select(table).where(table.c.id == operation_id)
        for operation in read(OPERATION.value, connection.execute(question)):
            return operation
        raise ClusterNotFound(f'Cannot find operation {operation_id!r}.')


class Journal(Records):
    """The steps of operations; the holder of the lease of their cluster writes them."""

    def of(self, operation_id: str) -> tuple[Step, ...]:
        """Return all steps of an operation, in the order of their start."""
        return self._steps(step.c.operation_id == operation_id)

    def open(self, operation_id: str) -> tuple[Step, ...]:
        """Return the intended steps of an operation whose results are unknown."""
        return self._steps(
            step.c.operation_id == operation_id, step.c.state == StepState.INTENT.value
        )

    def _steps(self, *which: sa.ColumnElement[bool]) -> tuple[Step, ...]:
        question = sa.select(step).where(*which).order_by(step.c.started_at, step.c.id)
        return self._read(STEP.value, question)


def _refuse_other(connection: sa.Connection, cluster_id: str, kind: OperationKind) -> None:
    for other in _open_ones(connection, cluster_id):
        raise ClusterBusy(_busy(connection, kind.value, other))


def enter(connection: sa.Connection, operation: Operation, *, supersede: bool = False) -> None:
    """Write a new operation within a change.

    :raises ClusterBusy: another operation is running, and ``supersede`` is not set.
    """
    if supersede:
        others = sa.and_(table.c.cluster_id == operation.cluster_id, OPEN)
        connection.execute(sa.update(table).where(others).values(cancelled=True))
    else:
        _refuse_other(connection, operation.cluster_id, operation.kind)
    connection.execute(sa.insert(table), OPERATION.row(operation))


def _open_ones(connection: sa.Connection, cluster_id: str) -> Iterable[Operation]:
    question = sa.select(table).where(table.c.cluster_id == cluster_id, OPEN)
    return read(OPERATION.value, connection.execute(question.order_by(table.c.seq)))


def _deletes_as(other: Operation, wanted: Operation) -> bool:
    """Return whether an operation is a deletion that does all that is wanted."""
    if other.cancelled or {other.kind, wanted.kind} != {OperationKind.DELETE}:
        return False
    return other.args.items() >= wanted.args.items()


def _busy(connection: sa.Connection, verb: str, other: Operation) -> str:
    name = connection.scalar(sa.select(cluster.c.name).where(cluster.c.id == other.cluster_id))
    going = 'is being cancelled' if other.cancelled else f'is {other.state.value}'
    return (
        f'Cannot {verb} cluster {name!r}: its {other.kind.value} {going}. Wait for it '
        f"('kiln cluster watch {name}'), or cancel it ('kiln cluster cancel {name}')."
    )


def put_off(connection: sa.Connection, cluster_id: str, *, since: float, at: float) -> None:
    """Extend the deadlines of a cluster by the time of its pause, within a change."""
    open_ones = sa.select(table).where(table.c.cluster_id == cluster_id, OPEN)
    for operation in read(OPERATION.value, connection.execute(open_ones)):
        if operation.deadline_at:
            lost = max(0.0, at - max(since, operation.created_at))
            mine = sa.update(table).where(table.c.id == operation.id)
            connection.execute(mine.values(deadline_at=operation.deadline_at + lost))


def date_back(connection: sa.Connection, operation: Operation, *, since: float) -> None:
    """Write that an operation was submitted earlier than the store has it, within a change.

    :param since: when the store has it submitted or retried.
    """
    back_s = since - operation.asked_at
    left = sa.case((table.c.deadline_at > 0, table.c.deadline_at - back_s), else_=0.0)
    row = OPERATION.row(operation)
    earlier = {'created_at': row['created_at'], 'args': row['args'], 'deadline_at': left}
    connection.execute(sa.update(table).where(table.c.id == operation.id).values(**earlier))
    _begun_by(connection, operation.id, operation.asked_at)


def _begun_by(connection: sa.Connection, operation_id: str, at: float) -> None:
    """Let no step of an operation begin later than at a time, by a clock that was set back."""
    later = sa.and_(step.c.operation_id == operation_id, step.c.started_at > at)
    connection.execute(sa.update(step).where(later).values(started_at=at))


def waiting(now: sa.ColumnElement[float]) -> Any:
    """Return the query for the ids of clusters that have work and no engine."""
    return (
        sa.select(table.c.cluster_id)
        .join(cluster, cluster.c.id == table.c.cluster_id)
        .join(lease, lease.c.scope == table.c.cluster_id)
        .where(*_RUNNABLE, lease.c.expires < now)
        .group_by(table.c.cluster_id)
    )


def newest_seqs() -> sa.Select[tuple[int]]:
    """Return the query for the newest operations, which give existing clusters their status."""
    return (
        sa.select(sa.func.max(table.c.seq))
        .join(cluster, cluster.c.id == table.c.cluster_id)
        .group_by(table.c.cluster_id)
    )
