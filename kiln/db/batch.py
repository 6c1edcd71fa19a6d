"""What an engine writes: many changes of one cluster in one commit, behind its fence.

The changes are gathered first and written at the end, so that the transaction
lasts no longer than it must: whoever is stopped outside of it holds up nobody.
Threads of one owner may write at once; all write their tables in one order, so
that they seldom wait for each other's rows in a circle. Where they do, one of
them is told to write again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable

import sqlalchemy as sa

from kiln.cluster_exceptions import ClusterNotEmpty
from kiln.cluster_models import (
    Aim,
    Cluster,
    Event,
    Holding,
    Lease,
    Node,
    Operation,
    Secret,
    Step,
)
from kiln.db import schema
from kiln.db.clusters import write_desired
from kiln.db.database import Database
from kiln.db.events import EventWriter
from kiln.db.keys import KeyFile
from kiln.db.leases import lost, proof
from kiln.db.rows import (
    HEADWAY,
    HOLDING,
    PROGRESS,
    STEP,
    Row,
    desired_row,
    event_row,
    node_row,
    secret_row,
)
from kiln.db.statements import Statement

_SHOWN = 10
# Written out: PyMySQL takes no parameter after the values of many rows.
_EMPTY: sa.ColumnElement[str] = sa.literal_column("''")


class Writing:
    """The statements of batches, made once for a database."""

    def __init__(self, database: Database, keys: KeyFile) -> None:
        self.database = database
        self.keys = keys
        self.proof = proof(database)
        self.acceptance = Statement(database, _ACCEPT)
        self.events = EventWriter(database)
        node = database.upsert(
            schema.node,
            # A server that was accepted belongs to its attempt: only with the
            # next attempt does what is written of it count again.
            compute_id=lambda old, new: sa.case(
                (old.attempt == new.attempt, old.compute_id), else_=new.compute_id
            ),
            # Who is to go may be said by others than the engine, any time; what
            # it had read before must not undo that.
            doomed=lambda old, new: sa.case((new.doomed == _EMPTY, old.doomed), else_=new.doomed),
        )
        #: By what is changed, in the order in which it is written.
        self.statements = {
            name: Statement(database, statement)
            for name, statement in {
                'cluster': _update(schema.cluster, 'cluster_id'),
                'operation': _update(schema.operation, 'operation_id'),
                'step': database.upsert(schema.step),
                'node': node,
                'holding': database.upsert(schema.holding),
                'secret': database.upsert(schema.secret),
            }.items()
        }


class Batch:
    """Changes of one cluster that are written together, or not at all."""

    def __init__(self, writing: Writing, lease: Lease, stack: contextlib.ExitStack) -> None:
        self._writing = writing
        self._lease = lease
        self._stack = stack
        self._connection: sa.Connection | None = None
        # The last one of a key is written.
        self._rows: dict[str, dict[Hashable, Row]] = {name: {} for name in writing.statements}
        self._events: list[Row] = []

    # ---- what may be changed -------------------------------------------------

    def cluster(self, cluster: Cluster) -> None:
        """Write what an engine has a say in: its driver's state, and what to return to.

        What is wanted of the cluster, its driver, and whether it is paused, stay.
        """
        row = {'cluster_id': cluster.id, **PROGRESS.row(cluster)}
        self._put('cluster', cluster.id, cluster.id, row)

    def change_aim(self, aim: Aim, *, generation: int) -> bool:
        """Replace what is wanted, as a rollback does, and raise the generation.

        Return False, and leave it, where it has another generation: then its
        owner was faster.
        """
        row = desired_row(aim.spec, aim.pin, aim.decision)
        at = self._writing.database.clock.time()
        return write_desired(self._open(), self._lease.scope, generation, row, at)

    def operation(self, operation: Operation) -> None:
        """Write how far an operation has come.

        Whether it is cancelled stays as it is, and so does its deadline: see ``put_off``.
        """
        row = {'operation_id': operation.id, **HEADWAY.row(operation)}
        self._put('operation', operation.cluster_id, operation.id, row)

    def put_off(self, operation: Operation, deadline_at: float) -> None:
        """Give an operation another deadline, for it has begun something else."""
        self._own(operation.cluster_id)
        late = schema.operation.c.id == operation.id
        self._open().execute(
            sa.update(schema.operation).where(late).values(deadline_at=deadline_at)
        )

    def step(self, step: Step) -> None:
        """Write a step, new or not."""
        self._put('step', step.cluster_id, step.id, STEP.row(step))

    def node(self, node: Node) -> None:
        """Write a node, new or not.

        What it was accepted as stays until the next attempt (see ``accept``), and a node
        that is to go stays so.
        """
        self._put('node', node.cluster_id, node.id, node_row(node))

    def accept(self, node: Node, compute_id: str) -> bool:
        """Take a server for the node, if none was taken for this attempt before.

        Return whether this one is the node now: True also where it already was,
        so it may be repeated; False where there is another one, or the attempt is
        over. The rest of the batch is written either way.
        """
        self._own(node.cluster_id)
        connection = self._open()
        self._flush_rows()
        mine = {'node_id': node.id, 'mine': node.attempt, 'found': compute_id}
        return bool(self._writing.acceptance.run(connection, mine).rowcount)

    def holding(self, holding: Holding) -> None:
        """Write down something in a backend that belongs to the cluster, new or not."""
        key = (holding.backend, holding.kind, holding.id)
        self._put('holding', holding.cluster_id, key, HOLDING.row(holding))

    def secret(self, secret: Secret) -> None:
        """Keep a secret, encrypted, in the place of an earlier one of its name.

        :raises StoreError: there are no keys.
        """
        row = secret_row(secret, self._writing.keys.encrypt(secret.value))
        self._put('secret', secret.cluster_id, secret.name, row)

    def event(self, event: Event) -> None:
        """Tell something; the order of telling is kept."""
        self._own(event.cluster_id)
        self._events.append(event_row(event, self._writing.database.clock.time()))

    def bury(self, *, forced: bool = False) -> None:
        """Forget the cluster and its nodes and secrets, and leave a tombstone.

        To be called last. Its name is free from then on; its holdings remain, as
        its receipt.

        :raises ClusterNotEmpty: something is not confirmed gone; nothing is written.
            With ``forced`` it is abandoned, and the receipt says so.
        """
        connection, cluster_id = self._open(), self._lease.scope
        self._flush_rows()
        if not forced:
            self._prove_empty(connection)
        mine = schema.cluster.c.id == cluster_id
        name = connection.scalar(sa.select(schema.cluster.c.name).where(mine))
        # Where it is already buried, its tombstone stays as it is.
        if name is None:
            return
        at = self._writing.database.clock.time()
        stone = {'cluster_id': cluster_id, 'name': name, 'deleted_at': at}
        connection.execute(sa.insert(schema.tombstone), stone)
        # Its nodes and secrets go with it.
        connection.execute(sa.delete(schema.cluster).where(mine))

    # ---- how it is written ---------------------------------------------------

    def _put(self, name: str, cluster_id: str, key: Hashable, row: Row) -> None:
        """Gather a row; of several with one key the last one is written."""
        self._own(cluster_id)
        self._rows[name][key] = row

    def flush(self) -> None:
        """Write all that was gathered; the commit is the caller's.

        :raises LeaseLost: the lease is another one's.
        """
        self._open()
        self._flush_rows()
        # Last, for the counter of events makes all others wait.
        if self._events:
            self._writing.events.write(self._open(), self._events)
            self._events = []

    def _flush_rows(self) -> None:
        connection = self._open()
        for name, statement in self._writing.statements.items():
            statement.run_all(connection, self._rows[name].values())
            self._rows[name] = {}

    def _open(self) -> sa.Connection:
        """Begin the transaction with the proof that the lease is still ours."""
        if self._connection is None:
            connection = self._stack.enter_context(self._writing.database.writing())
            lease = self._lease
            mine = {'scope': lease.scope, 'owner': lease.owner, 'epoch': lease.epoch}
            if self._writing.proof.run(connection, mine).fetchone() is None:
                raise lost(lease)
            self._connection = connection
        return self._connection

    def _own(self, cluster_id: str) -> None:
        if cluster_id != self._lease.scope:
            raise ValueError(f'a lease of {self._lease.scope} is no leave to write {cluster_id}')

    def _prove_empty(self, connection: sa.Connection) -> None:
        columns = schema.holding.c
        question = (
            sa.select(columns.kind, columns.id, columns.backend)
            .where(columns.cluster_id == self._lease.scope, columns.gone_at.is_(None))
            .order_by(columns.backend, columns.kind, columns.id)
        )
        if left := connection.execute(question).all():
            named = ', '.join(f'{one.kind} {one.id} on {one.backend}' for one in left[:_SHOWN])
            more = f' and {len(left) - _SHOWN} more' if len(left) > _SHOWN else ''
            raise ClusterNotEmpty(
                f'Cannot forget cluster {self._lease.scope}: not confirmed gone: {named}{more}. '
                f'Nothing was forgotten.'
            )


def _update(table: sa.Table, key: str) -> sa.Update:
    # Which columns it changes is said by the rows that it is run with.
    return sa.update(table).where(table.c.id == sa.bindparam(key))


_ACCEPT = (
    _update(schema.node, 'node_id')
    .where(
        schema.node.c.attempt == sa.bindparam('mine'),
        sa.or_(
            schema.node.c.compute_id.is_(None),
            schema.node.c.compute_id == sa.bindparam('found'),
        ),
    )
    .values(compute_id=sa.bindparam('found'))
)
