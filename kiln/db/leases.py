"""Who may act on what: leases that end, and epochs that never repeat.

A lease ends when its time is over, and then anybody may claim it. What keeps
its former owner from writing is not time, for nobody knows how late a process
wakes up, but the epoch: each claim raises it, and each write proves it.
"""

from __future__ import annotations

import sqlalchemy as sa

from kiln.cluster_exceptions import LeaseLost
from kiln.cluster_models import Lease
from kiln.db.database import Database
from kiln.db.rows import LEASE, read
from kiln.db.schema import lease as table
from kiln.db.statements import Statement


class Leases:
    """The leases of a store; times are the database's own, whatever a host thinks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, scope: str, owner: str, term_s: float) -> Lease | None:
        """Take a scope that nobody holds any more; return None where somebody does.

        Not to be repeated by a claimant that has it: to keep it, renew it. The
        name of an owner must be one that no other process ever has.

        :raises StoreError: nobody can tell; claim again.
        """
        taking = (
            sa.update(table)
            .where(table.c.scope == scope, table.c.expires < self._database.now)
            .values(owner=owner, epoch=table.c.epoch + 1, expires=self._end(term_s))
        )
        with self._database.writing() as connection:
            if self._find(connection, scope) is None:
                add_free(self._database, connection, scope)
            if not connection.execute(taking).rowcount:
                return None
            return self._find(connection, scope)

    def renew(self, lease: Lease, term_s: float) -> Lease:
        """Hold a scope for a term from now on, also where the last one is over.

        Safe to repeat.

        :raises LeaseLost: somebody else has it.
        :raises StoreError: nobody can tell; renew it again.
        """
        with self._database.writing() as connection:
            if not self._update(connection, lease, expires=self._end(term_s)):
                raise lost(lease)
            return self._find(connection, lease.scope) or lease

    def release(self, lease: Lease, *, unsettled: bool = False) -> None:
        """Give a scope up, at once; its former owner cannot write any more either.

        With ``unsettled`` the lease keeps the owner's name, for whoever claims it next
        to see that it was left in the middle of something. Safe to repeat, and where
        somebody else has it by now.

        :raises StoreError: nobody can tell; else it ends by itself.
        """
        # The name alone would let it write on, so the epoch goes on instead.
        left = {'epoch': table.c.epoch + 1} if unsettled else {'owner': ''}
        with self._database.writing() as connection:
            self._update(connection, lease, expires=0.0, **left)

    def get(self, scope: str) -> Lease | None:
        """Return the last lease of a scope, over or not."""
        with self._database.reading() as connection:
            return self._find(connection, scope)

    def _end(self, term_s: float) -> sa.ColumnElement[float]:
        return self._database.now + term_s

    def _update(self, connection: sa.Connection, lease: Lease, **values: object) -> bool:
        changing = sa.update(table).where(*_is(lease)).values(**values)
        return bool(connection.execute(changing).rowcount)

    def _find(self, connection: sa.Connection, scope: str) -> Lease | None:
        found = connection.execute(sa.select(table).where(table.c.scope == scope))
        return next(iter(read(LEASE.value, found)), None)


def proof(database: Database) -> Statement:
    """Return the question whether an owner still has its epoch; to be asked within a change.

    On a server it holds the row until the commit, shared with other changes of
    the owner: a claim has to wait for them, and they find it made or not at all.
    """
    question = sa.select(table.c.epoch).where(
        table.c.scope == sa.bindparam('scope'),
        table.c.owner == sa.bindparam('owner'),
        table.c.epoch == sa.bindparam('epoch'),
    )
    # SQLite has one lock, and writing holds it.
    if database.kind != 'sqlite':
        question = question.with_for_update(read=True)
    return Statement(database, question)


def add_free(database: Database, connection: sa.Connection, scope: str) -> None:
    """Have a scope to claim, within a change, if there was none."""
    free = {'scope': scope, 'owner': '', 'epoch': 0, 'expires': 0.0}
    connection.execute(database.insert_missing(table), free)


def shut_out(connection: sa.Connection, scope: str) -> None:
    """Keep engines from writing to a scope until the commit, within a change.

    Who changes a cluster from outside begins with it, so the two of them never
    wait for each other in a circle.
    """
    connection.execute(sa.select(table.c.epoch).where(table.c.scope == scope).with_for_update())


def lost(lease: Lease) -> LeaseLost:
    """Return the error of an owner that is none any more."""
    return LeaseLost(
        f'Cannot write to {lease.scope}: {lease.owner} had it in epoch {lease.epoch}, and '
        f'somebody else has it now. Nothing was written.'
    )


def _is(lease: Lease) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        table.c.scope == lease.scope,
        table.c.owner == lease.owner,
        table.c.epoch == lease.epoch,
    )
