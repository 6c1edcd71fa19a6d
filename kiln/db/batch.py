"""Write batch of an engine: changes of one cluster in one commit, fenced by its lease.

A batch collects the changes and writes them at the end. The transaction stays short,
so that a process that is stopped outside of it blocks no other. Threads of one owner
can write at the same time. All of them write the tables in the same order, so that
deadlocks are rare; in a deadlock, one thread receives a retryable error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable

import sqlalchemy as sa

from kiln.clusters.exceptions import ClusterNotEmpty
from kiln.clusters.models import Aim, Cluster, Event, Holding, Lease, Node, Operation, Secret, Step
from kiln.db.database import Database
from kiln.db.keys import KeyFile
from kiln.db.leases import lost, proof
from kiln.db.records.clusters import write_desired
from kiln.db.records.events import EventWriter
from kiln.db.records.operations import date_back
from kiln.db.tables import schema
from kiln.db.tables.rows import (
    HEADWAY,
    HOLDING,
    PROGRESS,
    STEP,
    Row,
    desired_row,
    event_row,
    node_row,
)
from kiln.db.tables.statements import Statement

_SHOWN = 10
# Written out: PyMySQL takes no parameter after the values of many rows.
_EMPTY: sa.ColumnElement[str] = sa.literal_column("''")


class Writing:
    """The statements of all batches, compiled once for a database."""

    def __init__(self, database: Database, keys: KeyFile) -> None:
        self.database = database
        self.keys = keys
        self.proof = proof(database)
        self.acceptance = Statement(database, _ACCEPT)
        self.events = EventWriter(database)
        node = database.upsert(
            schema.node,
            # An accepted machine belongs to its attempt: until the next attempt, writes
            # do not change it.
            compute_id=lambda old, new: sa.case(
                (old.attempt == new.attempt, old.compute_id), else_=new.compute_id
            ),
            # Other processes can mark a node for removal at any time. A node that the
            # engine read before must not undo the mark.
            doomed=lambda old, new: sa.case((new.doomed == _EMPTY, old.doomed), else_=new.doomed),
        )
        #: By kind of change, in the order of writing.
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
    """Changes of one cluster that are written together or not at all."""

    def __init__(self, writing: Writing, lease: Lease, stack: contextlib.ExitStack) -> None:
        self._writing = writing
        self._lease = lease
        self._stack = stack
        self._connection: sa.Connection | None = None
        # The last row of a key is written.
        self._rows: dict[str, dict[Hashable, Row]] = {name: {} for name in writing.statements}
        self._events: list[Row] = []

    # ---- changes -------------------------------------------------------------

    def cluster(self, cluster: Cluster) -> None:
        """Write the columns that an engine owns: driver state and rollback target.

        The desired state of the cluster, its driver and its pause are not changed.
        """
        row = {'cluster_id': cluster.id, **PROGRESS.row(cluster)}
        self._put('cluster', cluster.id, cluster.id, row)

    def change_aim(self, aim: Aim, *, generation: int) -> bool:
        """Replace the desired state, as a rollback does, and raise the generation.

        Return False and change nothing if the generation differs: the owner of the
        cluster has changed it since.
        """
        row = desired_row(aim.spec, aim.pin, aim.decision)
        at = self._writing.database.clock.time()
        return write_desired(self._open(), self._lease.scope, generation, row, at)

    def give_back_room(self, generation: int, nodes: int) -> None:
        """Write how many nodes the cluster has or is to have, now that an operation has ended.

        Nothing is written if the owner of the cluster has changed it since.
        """
        table = schema.cluster
        mine = (table.c.id == self._lease.scope, table.c.generation == generation)
        self._open().execute(sa.update(table).where(*mine).values(nodes=nodes))

    def operation(self, operation: Operation) -> None:
        """Write the progress of an operation.

        Does not change its cancellation and its times; see ``put_off`` and ``date_back``.
        """
        row = {'operation_id': operation.id, **HEADWAY.row(operation)}
        self._put('operation', operation.cluster_id, operation.id, row)

    def put_off(self, operation: Operation, deadline_at: float) -> None:
        """Set a new deadline for an operation that has entered another phase."""
        self._own(operation.cluster_id)
        late = schema.operation.c.id == operation.id
        self._open().execute(
            sa.update(schema.operation).where(late).values(deadline_at=deadline_at)
        )

    def date_back(self, operation: Operation, before: float) -> None:
        """Write that an operation was submitted, or retried, earlier than at a time before.

        What its owner has added to its deadline stays.
        """
        self._own(operation.cluster_id)
        date_back(self._open(), operation, since=before)

    def step(self, step: Step) -> None:
        """Insert or update a step."""
        self._put('step', step.cluster_id, step.id, STEP.row(step))

    def node(self, node: Node) -> None:
        """Insert or update a node.

        Its accepted machine stays until the next attempt (see ``accept``), and a mark for
        removal stays.
        """
        self._put('node', node.cluster_id, node.id, node_row(node))

    def accept(self, node: Node, compute_id: str) -> bool:
        """Accept a machine for the node, unless this attempt has accepted another.

        Return True if the machine is the node's now, even if it was before, so it is safe
        to repeat. Return False if the node has another machine or the attempt is over.
        The rest of the batch is written either way.
        """
        self._own(node.cluster_id)
        connection = self._open()
        self._flush_rows()
        mine = {'node_id': node.id, 'mine': node.attempt, 'found': compute_id}
        return bool(self._writing.acceptance.run(connection, mine).rowcount)

    def holding(self, holding: Holding) -> None:
        """Insert or update the record of a backend resource of the cluster."""
        key = (holding.backend, holding.kind, holding.id)
        self._put('holding', holding.cluster_id, key, HOLDING.row(holding))

    def secret(self, secret: Secret) -> None:
        """Write a secret, encrypted for this row; it replaces a former secret of the same name.

        :raises StoreError: the keys are missing.
        """
        token = self._writing.keys.encrypt(secret)
        row = {'cluster_id': secret.cluster_id, 'name': secret.name, 'value': token}
        self._put('secret', secret.cluster_id, secret.name, row)

    def event(self, event: Event) -> None:
        """Add an event; events keep their order."""
        self._own(event.cluster_id)
        self._events.append(event_row(event, self._writing.database.clock.time()))

    def bury(self, *, forced: bool = False) -> None:
        """Delete the cluster with its nodes and secrets, and leave a tombstone.

        Call it last. The name is free afterwards; the holdings remain as the receipt.

        :raises ClusterNotEmpty: a resource is not confirmed gone; nothing is written.
            With ``forced`` the resource is abandoned, and the receipt lists it.
        """
        connection, cluster_id = self._open(), self._lease.scope
        self._flush_rows()
        if not forced:
            self._prove_empty(connection)
        mine = schema.cluster.c.id == cluster_id
        name = connection.scalar(sa.select(schema.cluster.c.name).where(mine))
        # An existing tombstone stays unchanged.
        if name is None:
            return
        at = self._writing.database.clock.time()
        stone = {'cluster_id': cluster_id, 'name': name, 'deleted_at': at}
        connection.execute(sa.insert(schema.tombstone), stone)
        # Its nodes and secrets are deleted by cascade.
        connection.execute(sa.delete(schema.cluster).where(mine))

    # ---- writing -------------------------------------------------------------

    def _put(self, name: str, cluster_id: str, key: Hashable, row: Row) -> None:
        """Collect a row; the last row of a key is written."""
        self._own(cluster_id)
        self._rows[name][key] = row

    def flush(self) -> None:
        """Write all collected changes; the caller commits.

        :raises LeaseLost: another owner has the lease.
        """
        self._open()
        self._flush_rows()
        # Last, because other writers of events wait for the counter.
        if self._events:
            self._writing.events.write(self._open(), self._events)
            self._events = []

    def _flush_rows(self) -> None:
        connection = self._open()
        for name, statement in self._writing.statements.items():
            statement.run_all(connection, self._rows[name].values())
            self._rows[name] = {}

    def _open(self) -> sa.Connection:
        """Begin the transaction, and prove that the lease is still held."""
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
            raise ValueError(f'a lease of {self._lease.scope} does not allow writing {cluster_id}')

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
                f'Cannot delete the records of cluster {self._lease.scope}: not confirmed gone: '
                f'{named}{more}. Nothing was written.'
            )


def _update(table: sa.Table, key: str) -> sa.Update:
    # The rows of a run determine the columns to change.
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
