"""One database: how it is opened, read and written, whichever of three it is.

A change is one transaction. On SQLite it takes the one lock that there is at
once, and the threads of a process queue for it in the process, where waiting
costs nothing. All that differs between the databases is here.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import sqlalchemy as sa
from sqlalchemy import exc as sa_exc
from sqlalchemy.dialects import mysql, postgresql, sqlite

from kiln.clock import Clock
from kiln.cluster_exceptions import StoreError
from kiln.exceptions import Advice
from kiln.extras import importing

#: What a URL may begin with, and the dialect and package that serve it.
_DRIVERS = {
    'sqlite': 'sqlite',
    'postgresql': 'postgresql+psycopg',
    'postgres': 'postgresql+psycopg',
    'mariadb': 'mariadb+pymysql',
    'mysql': 'mariadb+pymysql',
}
# PostgreSQL and MariaDB on their own clock; SQLite has that of this process,
# which is on the same host as all others that use the file.
_NOW = {
    'sqlite': 'kiln_now()',
    'postgresql': 'CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)',
    'mariadb': 'UNIX_TIMESTAMP(SYSDATE(6))',
}
# No transaction waits for anything but the database, so one that does is stopped. It is
# less than a third of a lease: who waits for a sleeper must not lose his own leases.
_IDLE_S = 4.0
# Deadlocks, locks held for too long, servers that are full or not there: the
# same change may succeed a moment later.
_PASSING = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_RECOVERY, sqlite3.SQLITE_BUSY_SNAPSHOT,
    '40001', '40P01', '53300', '55P03', '57P01', '57P02', '57P03', '25P03',
    1020, 1040, 1205, 1213, 1927, 2003, 2006, 2013, 4031,
}  # fmt: skip


class Contradiction(StoreError):
    """What was to be written contradicts what there is; nothing was written."""

    code = 'store_contradiction'
    remedy = 'Look at what is there; the message names what is in the way.'


class Database:
    """A pool of connections, and the little that has to be said per dialect."""

    def __init__(self, url: str, *, clock: Clock, lock_timeout_s: float = 30.0) -> None:
        self._url = parse_url(url)
        self.clock = clock
        #: ``sqlite``, ``postgresql`` or ``mariadb``.
        self.kind = self._url.get_backend_name()
        #: What to call it before people.
        self.name = f'file {self.path}' if self.path else _without_user(self._url)
        #: The time of the database, for SQL.
        self.now: sa.ColumnElement[float] = sa.literal_column(_NOW[self.kind], sa.Double())
        self._lock_timeout_s = lock_timeout_s
        self._turn = threading.Lock() if self.path else None
        self._engine = self._make_engine()
        self._driver: Any = self._engine.dialect.loaded_dbapi

    @property
    def path(self) -> Path | None:
        """The file of the database, or None where it is a server."""
        database = self._url.database
        return Path(database) if self.kind == 'sqlite' and database else None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Look at what is committed.

        :raises StoreError: the database cannot be used.
        """
        with self._explained('read'), self._engine.begin() as connection:
            self._begin(connection, 'BEGIN')
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Make one change, wholly or not at all; committed when this returns.

        :raises StoreError: it was not made; where the connection broke off in
            the middle of the commit, it may have been, and the message says so.
        """
        with self._explained('write'), self._in_turn(), self._engine.begin() as connection:
            self._begin(connection, 'BEGIN IMMEDIATE')
            yield connection

    @contextlib.contextmanager
    def alone(self, connection: sa.Connection, purpose: str) -> Iterator[None]:
        """Keep others of the same purpose waiting, within a change; on SQLite all wait anyway.

        :raises StoreError: somebody else has been at it for a minute.
        """
        name = f'kiln-{purpose}'
        if self.kind == 'postgresql':
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(name))))
        if self.kind != 'mariadb':
            yield
            return
        # Of the session, for a transaction ends there with any change of a table.
        if not connection.scalar(sa.select(sa.func.get_lock(name, 60))):
            raise StoreError(
                f'Cannot write the store at {self.name}: another {purpose} has been under way '
                f'for a minute. Wait for it.'
            )
        try:
            yield
        finally:
            connection.execute(sa.select(sa.func.release_lock(name)))

    def insert_missing(self, table: sa.Table) -> Any:
        """Return an insert that leaves a row that is already there as it is."""
        insert = _INSERTS[self.kind](table)
        if self.kind == 'mariadb':
            column = next(iter(table.primary_key.columns)).name
            return insert.on_duplicate_key_update({column: table.c[column]})
        return insert.on_conflict_do_nothing()

    def upsert(self, table: sa.Table, **special: Any) -> Any:
        """Return an insert that writes over a row that is already there.

        ``special`` says of some columns what they get: a function of the columns
        of the row there, and of the new one's.
        """
        insert = _INSERTS[self.kind](table)
        new = insert.inserted if self.kind == 'mariadb' else insert.excluded
        keys = [column.name for column in table.primary_key.columns]
        # MariaDB assigns one after the other, and what comes later sees what
        # was assigned before: what depends on the row there must come first.
        values = [(name, make(table.c, new)) for name, make in special.items()]
        plain = [one.name for one in table.c if one.name not in {*keys, *special}]
        values += [(name, new[name]) for name in plain]
        if self.kind == 'mariadb':
            return insert.on_duplicate_key_update(values)
        return insert.on_conflict_do_update(index_elements=keys, set_=dict(values))

    @property
    def dialect(self) -> sa.Dialect:
        """What the database calls things, and what it can do."""
        return self._engine.dialect

    def close(self) -> None:
        """Let go of all connections; safe to repeat."""
        self._engine.dispose()

    # ---- connections ---------------------------------------------------------

    def _make_engine(self) -> sa.Engine:
        # Parameters may be anything, so no error and no log quotes them.
        options: dict[str, Any] = {'hide_parameters': True, 'max_overflow': 24}
        if self.kind != 'sqlite':
            # After a wait for a lock one must see what its holder wrote.
            options |= {'isolation_level': 'READ COMMITTED', 'pool_pre_ping': True}
        with importing(f'Cannot use the store at {self.name}', StoreError):
            engine = sa.create_engine(
                self._url, connect_args=_connect_args(self.kind, self._lock_timeout_s), **options
            )
        if self.kind == 'sqlite':
            sa.event.listen(engine, 'connect', self._prepare_sqlite)
        return engine

    def _prepare_sqlite(self, connection: Any, record: Any) -> None:
        # Transactions begin when we say so, not when sqlite3 thinks fit.
        connection.isolation_level = None
        connection.create_function('kiln_now', 0, self.clock.time)
        # That it has a write-ahead log is written in the file, when it is made.
        connection.execute('PRAGMA synchronous = FULL')
        connection.execute('PRAGMA foreign_keys = ON')

    def _begin(self, connection: sa.Connection, how: str) -> None:
        # Else sqlite3 would begin when it thinks fit. A listener of SQLAlchemy's
        # could say so as well, but then every statement looks for listeners.
        if self.kind == 'sqlite':
            driver: Any = connection.connection.dbapi_connection
            driver.execute(how)

    @contextlib.contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Have the threads of this process write one after the other, on SQLite."""
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=self._lock_timeout_s):
            error = StoreError(
                f'Cannot write the store at {self.name}: another thread of this process has '
                f'been writing for {self._lock_timeout_s:g} s. Nothing was written.'
            )
            error.retryable, error.advice = True, Advice.WAIT
            raise error
        try:
            yield
        finally:
            self._turn.release()

    # ---- errors --------------------------------------------------------------

    @contextlib.contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except (sa_exc.SQLAlchemyError, self._driver.Error) as exc:
            self._explain(verb, exc)

    def _explain(self, verb: str, exc: Exception) -> NoReturn:
        why = exc.orig if isinstance(exc, sa_exc.DBAPIError) and exc.orig else exc
        lost = isinstance(exc, sa_exc.DBAPIError) and exc.connection_invalidated
        words = ' '.join(str(why.args[-1] if why.args else why).split())
        doubt = ' What was being written may or may not be there.' if lost else ''
        contradicts = isinstance(why, self._driver.IntegrityError)
        kind = Contradiction if contradicts else StoreError
        error = kind(f'Cannot {verb} the store at {self.name}: {words}.{doubt}')
        if lost or self._passes(why):
            error.retryable, error.advice = True, Advice.WAIT
        raise error from exc

    def _passes(self, why: BaseException) -> bool:
        codes = _codes(why)
        # Of a connection that cannot be made psycopg gives no code.
        silent = self.kind == 'postgresql' and getattr(why, 'sqlstate', '') is None
        return silent or not _PASSING.isdisjoint(codes)


def parse_url(url: str) -> sa.URL:
    """Return a URL with the package that serves it.

    :raises StoreError: there is none, or a database in memory is meant.
    """
    try:
        parsed = sa.make_url(url)
    except (sa_exc.ArgumentError, ValueError):
        # Its words would quote the URL, and so the password.
        raise StoreError(
            'Cannot use the URL of the store: it is not written as one. Write '
            'sqlite:////PATH, postgresql://USER:PASSWORD@HOST/DATABASE or '
            'mariadb://USER:PASSWORD@HOST/DATABASE.'
        ) from None
    driver = _DRIVERS.get(parsed.get_backend_name())
    if driver is None:
        raise StoreError(
            f'Cannot use a store of kind {parsed.drivername!r}: choose sqlite, postgresql or '
            f'mariadb.'
        )
    if not parsed.database or parsed.database == ':memory:':
        raise StoreError(
            f'Cannot use the store at {_without_user(parsed)}: name its file or database.'
        )
    return parsed.set(drivername=driver)


def _without_user(url: sa.URL) -> str:
    plain = sa.URL.create(
        url.get_backend_name(), host=url.host, port=url.port, database=url.database
    )
    return plain.render_as_string()


def _connect_args(kind: str, lock_timeout_s: float) -> dict[str, Any]:
    if kind == 'sqlite':
        return {'timeout': lock_timeout_s}
    # Whoever is stopped in the middle of a transaction holds its locks so long: then
    # the server ends his session, and those who wait go on.
    idle_s = min(lock_timeout_s, _IDLE_S)
    if kind == 'postgresql':
        # Only here, for it needs the package that a store on SQLite does without.
        from kiln.db.postgresql import Cursor

        return {
            'connect_timeout': 10,
            'cursor_factory': Cursor,
            'options': f'-c lock_timeout={int(lock_timeout_s * 1000)} '
            f'-c idle_in_transaction_session_timeout={int(idle_s * 1000)}',
        }
    seconds = max(1, int(lock_timeout_s))
    return {
        'charset': 'utf8mb4',
        # Without a zone of its own the session would have two equal hours in autumn.
        'init_command': f"SET time_zone = '+00:00', innodb_lock_wait_timeout = {seconds}, "
        f'idle_transaction_timeout = {max(1, int(idle_s))}',
    }


def _codes(error: BaseException) -> set[object]:
    """Return how the database itself calls an error; each has another place for it."""
    return {
        getattr(error, 'sqlstate', None),
        getattr(error, 'sqlite_errorcode', None),
        error.args[0] if error.args else None,
    }


_INSERTS: dict[str, Any] = {
    'sqlite': sqlite.insert,
    'postgresql': postgresql.insert,
    'mariadb': mysql.insert,
}
