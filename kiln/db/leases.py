"""Leases on clusters, with expiry times and fencing epochs.

Any process can claim a lease that has expired. The expiry does not keep the former
owner from writing, because a process can wake up late. The epoch does: each claim
raises it, and each write proves it.
"""

from __future__ import annotations

import sqlalchemy as sa

from kiln.clusters.exceptions import LeaseLost
from kiln.clusters.models import Lease
from kiln.db.database import Database
from kiln.db.records.base import Records
from kiln.db.tables.rows import LEASE, read
from kiln.db.tables.schema import lease as table
from kiln.db.tables.statements import Statement


class Leases(Records):
    """The leases of a store; all times are from the clock of the database."""

    def claim(self, scope: str, owner: str, term_s: float) -> Lease | None:
        """Claim a scope whose lease has expired; return None if another owner holds it.

        An owner that holds the lease renews it instead. The name of an owner must be unique
        among all processes, also former ones.

        :raises StoreError: the result is unknown; claim again.
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
        """Extend a lease for a term from now, even if it has expired.

        Safe to repeat.

        :raises LeaseLost: another owner has the lease.
        :raises StoreError: the result is unknown; renew again.
        """
        with self._database.writing() as connection:
            if not self._update(connection, lease, expires=self._end(term_s)):
                raise lost(lease)
            return self._find(connection, lease.scope) or lease

    def release(self, *leases: Lease, unsettled: bool = False) -> None:
        """Release leases at once, all or none; their former owner can no longer write.

        With ``unsettled`` they keep the name of the owner, so that the next owner sees that
        work was interrupted. Safe to repeat, even if another owner has a lease.

        :raises StoreError: the result is unknown; the leases expire by themselves.
        """
        # With its name the owner could still write, so the epoch is raised instead.
        left = {'epoch': table.c.epoch + 1} if unsettled else {'owner': ''}
        with self._database.writing() as connection:
            # Each in its turn, so that two processes never wait for each other.
            for lease in sorted(leases, key=lambda one: one.scope):
                self._update(connection, lease, expires=0.0, **left)

    def held_on(self, host: str, *, besides: str = '') -> tuple[Lease, ...]:
        """Return the leases that owners hold whose names begin with that of a host.

        :param besides: an owner whose leases are not returned.
        """
        on_host = table.c.owner.startswith(f'{host}.', autoescape=True)
        held = sa.and_(table.c.owner != besides, table.c.expires >= self._database.now)
        return self._read(LEASE.value, sa.select(table).where(on_host, held))

    def expire(self, lease: Lease) -> None:
        """Let the lease of an owner that has died expire now; safe to repeat.

        It keeps the name of the owner, so that the next one sees that work was interrupted.

        :raises StoreError: the result is unknown; expire it again.
        """
        with self._database.writing() as connection:
            self._update(connection, lease, expires=0.0)

    def shorten(self, term_s: float, *, scope: str | None = None, besides: str = '') -> int:
        """Shorten the leases that end later than in two terms to one; return their number.

        No owner has made them that long: the clock was set back. An owner that is alive renews
        its lease in time.

        :param scope: the only scope that has this term; None for all.
        :param besides: a scope that has another term.
        :raises StoreError: the result is unknown; shorten them again.
        """
        of_term = table.c.scope != besides if scope is None else table.c.scope == scope
        long = sa.and_(table.c.expires > self._end(2 * term_s), of_term)
        with self._database.reading() as connection:
            if connection.execute(sa.select(table.c.scope).where(long).limit(1)).first() is None:
                return 0
        changing = sa.update(table).where(long).values(expires=self._end(term_s))
        with self._database.writing() as connection:
            return connection.execute(changing).rowcount

    def now(self) -> float:
        """Return the time of the clock by which leases expire."""
        with self._database.reading() as connection:
            found: float = connection.execute(sa.select(self._database.now)).scalar_one()
        return found

    def get(self, scope: str) -> Lease | None:
        """Return the last lease of a scope, even if it has expired."""
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
    """Return the query that proves the epoch of an owner, for use within a change.

    On a server the query locks the row until the commit, shared with other changes of
    the owner: a claim waits for these changes, so none of them is half made.
    """
    question = sa.select(table.c.epoch).where(
        table.c.scope == sa.bindparam('scope'),
        table.c.owner == sa.bindparam('owner'),
        table.c.epoch == sa.bindparam('epoch'),
    )
    # On SQLite a write holds the only lock.
    if database.kind != 'sqlite':
        question = question.with_for_update(read=True)
    return Statement(database, question)


def add_free(database: Database, connection: sa.Connection, scope: str) -> None:
    """Insert a free lease for a scope within a change, unless one exists."""
    free = {'scope': scope, 'owner': '', 'epoch': 0, 'expires': 0.0}
    connection.execute(database.insert_missing(table), free)


def shut_out(connection: sa.Connection, scope: str) -> None:
    """Block writes of engines to a scope until the commit, within a change.

    Changes of a cluster by callers start with it, so that they never deadlock with an
    engine.
    """
    connection.execute(sa.select(table.c.epoch).where(table.c.scope == scope).with_for_update())


def lost(lease: Lease) -> LeaseLost:
    """Return the error of an owner that has lost its lease."""
    return LeaseLost(
        f'Cannot write to {lease.scope}: {lease.owner} held its lease in epoch {lease.epoch}, '
        f'but another owner holds it now. Nothing was written.'
    )


def _is(lease: Lease) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        table.c.scope == lease.scope,
        table.c.owner == lease.owner,
        table.c.epoch == lease.epoch,
    )
