"""Connections and transactions on SQLite, PostgreSQL or MariaDB.

A change is one transaction. On SQLite it takes the single write lock at its start, and
the threads of a process queue for it inside the process, where waiting is cheap. All
differences between the databases are in this module.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc as sa_exc

from kiln.clock import Clock
from kiln.clusters.exceptions import StoreBroken, StoreError
from kiln.db.silence import ServerSilence
from kiln.exceptions import Advice
from kiln.plugins.extras import importing

LOG = logging.getLogger(__name__)

#: The accepted schemes of URLs, with dialect and package of each.
_DRIVERS = {
    'sqlite': 'sqlite',
    'postgresql': 'postgresql+psycopg',
    'postgres': 'postgresql+psycopg',
    'mariadb': 'mariadb+pymysql',
    'mysql': 'mariadb+pymysql',
}
# PostgreSQL and MariaDB use the clock of the server. SQLite uses the clock of this
# process, which runs on the same host as all other users of the file.
_NOW = {
    'sqlite': 'kiln_now()',
    'postgresql': 'CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)',
    'mariadb': 'UNIX_TIMESTAMP(SYSDATE(6))',
}
_SIZE = {
    'postgresql': 'SELECT pg_database_size(current_database())',
    'mariadb': 'SELECT SUM(data_length + index_length) FROM information_schema.tables '
    'WHERE table_schema = DATABASE()',
}
# Transactions wait only for the database, so an idle one belongs to a stopped process.
# Less than a third of a lease, so that a process that waits for it keeps its own leases.
_IDLE_S = 4.0
# Deadlocks, lock timeouts, full or unreachable servers: the same change might succeed
# a moment later.
_PASSING = {
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_RECOVERY, sqlite3.SQLITE_BUSY_SNAPSHOT),
    *('40001', '40P01', '53300', '55P03', '57P01', '57P02', '57P03', '25P03'),
    *(1020, 1040, 1205, 1213, 1927, 2003, 2006, 2013, 4031),
}
# Damage, and tables or columns that are not there.
_BROKEN = {
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB),
    *('42P01', '42703', 'XX001', 'XX002'),
    *(126, 127, 144, 145, 1054, 1146, 1194, 1712, 1932),
}


class Contradiction(StoreError):
    """A write violates a constraint; nothing was written."""

    code = 'store_contradiction'
    remedy = 'Look at the row that the message names.'


class Database:
    """A pool of connections, and the differences between the dialects."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        lock_timeout_s: float = 30.0,
        report: Callable[[str], None] = LOG.warning,
    ) -> None:
        """Connect to nothing yet; ``report`` receives a sentence if a server is silent."""
        self._url = parse_url(url)
        self.clock = clock
        #: ``sqlite``, ``postgresql`` or ``mariadb``.
        self.kind: str = self._url.get_backend_name()
        #: The name of the database in messages.
        self.name: str = f'file {self.path}' if self.path else _without_user(self._url)
        #: SQL expression for the time of the database.
        self.now: sa.ColumnElement[float] = sa.literal_column(_NOW[self.kind], sa.Double())
        #: Seconds to wait for the writes of other processes.
        self.lock_timeout_s = lock_timeout_s
        self._turn = threading.Lock() if self.path else None
        #: None for a file, which is never silent.
        self.silence = None if self.path else ServerSilence(self.name, report)
        self._engine = self._make_engine()
        self._insert: Any = _insert_of(self.kind)
        self._driver: Any = self._engine.dialect.loaded_dbapi

    @property
    def path(self) -> Path | None:
        """The file of the database, or None for a server."""
        database = self._url.database
        return Path(database) if self.kind == 'sqlite' and database else None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Begin a transaction that reads committed data.

        :raises StoreError: the database cannot be used.
        """
        with self._explained('read'), self._noted(), self._engine.begin() as connection:
            self._begin(connection, 'BEGIN')
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Begin a transaction for one change, committed when the block ends.

        :raises StoreError: nothing was written; but if the connection broke during the
            commit, the change might be written, and the message states it.
        """
        with (
            self._explained('write'),
            self._in_turn(),
            self._noted(),
            self._engine.begin() as connection,
        ):
            self._begin(connection, 'BEGIN IMMEDIATE')
            yield connection

    def _noted(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self.silence is None else self.silence.noted()

    @contextlib.contextmanager
    def alone(self, connection: sa.Connection, purpose: str) -> Iterator[None]:
        """Exclude other changes of the same purpose until the commit.

        SQLite needs nothing for it, because every change excludes all others.

        :raises StoreError: another change of this purpose has been running for a minute.
        """
        name = f'kiln-{purpose}'
        if self.kind == 'postgresql':
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(name))))
        if self.kind != 'mariadb':
            yield
            return
        # A lock of the session, because DDL commits a transaction on MariaDB.
        if not connection.scalar(sa.select(sa.func.get_lock(name, 60))):
            raise StoreError(
                f'Cannot write the store at {self.name}: another {purpose} has been running '
                f'for a minute. Wait for it.'
            )
        try:
            yield
        finally:
            connection.execute(sa.select(sa.func.release_lock(name)))

    def insert_missing(self, table: sa.Table) -> Any:
        """Return an insert that does nothing if the row exists."""
        insert = self._insert(table)
        if self.kind == 'mariadb':
            column = next(iter(table.primary_key.columns)).name
            return insert.on_duplicate_key_update({column: table.c[column]})
        return insert.on_conflict_do_nothing()

    def upsert(self, table: sa.Table, **special: Any) -> Any:
        """Return an insert that updates the row if it exists.

        ``special`` maps columns to functions that compute their values from the columns of
        the existing row and of the new row.
        """
        insert = self._insert(table)
        new = insert.inserted if self.kind == 'mariadb' else insert.excluded
        keys = [column.name for column in table.primary_key.columns]
        # MariaDB assigns the columns in order, and later expressions see earlier
        # assignments: expressions on the existing row must come first.
        values = [(name, make(table.c, new)) for name, make in special.items()]
        plain = [one.name for one in table.c if one.name not in {*keys, *special}]
        values += [(name, new[name]) for name in plain]
        if self.kind == 'mariadb':
            return insert.on_duplicate_key_update(values)
        return insert.on_conflict_do_update(index_elements=keys, set_=dict(values))

    def size_bytes(self, connection: sa.Connection) -> int:
        """Return the size of the database on its disk, with what it has not tidied up."""
        if self.path:
            files = (self.path, self.path.with_name(f'{self.path.name}-wal'))
            return sum(file.stat().st_size for file in files if file.exists())
        return int(connection.scalar(sa.text(_SIZE[self.kind])) or 0)

    @property
    def dialect(self) -> sa.Dialect:
        """The SQLAlchemy dialect of the database."""
        return self._engine.dialect

    def close(self) -> None:
        """Close all connections; safe to repeat."""
        self._engine.dispose()
        if self.silence is not None:
            self.silence.close()

    # ---- connections ---------------------------------------------------------

    def _make_engine(self) -> sa.Engine:
        # Parameters can hold secrets, so no error and no log quotes them.
        options: dict[str, Any] = {'hide_parameters': True, 'max_overflow': 24}
        if self.kind != 'sqlite':
            # After a wait for a lock, a transaction must see what its holder wrote.
            options |= {'isolation_level': 'READ COMMITTED', 'pool_pre_ping': True}
        with importing(f'Cannot use the store at {self.name}', StoreError):
            engine = sa.create_engine(
                self._url, connect_args=_connect_args(self.kind, self.lock_timeout_s), **options
            )
        if self.kind == 'sqlite':
            sa.event.listen(engine, 'connect', self._prepare_sqlite)
        return engine

    def _prepare_sqlite(self, connection: Any, record: Any) -> None:
        # Transactions begin explicitly, not implicitly by sqlite3.
        connection.isolation_level = None
        connection.create_function('kiln_now', 0, self.clock.time)
        # The file itself is in WAL mode since its creation.
        connection.execute('PRAGMA synchronous = FULL')
        connection.execute('PRAGMA foreign_keys = ON')

    def _begin(self, connection: sa.Connection, how: str) -> None:
        # Explicit, as set in _prepare_sqlite. An event listener of SQLAlchemy could do it
        # too, but would slow every statement down.
        if self.kind == 'sqlite':
            driver: Any = connection.connection.dbapi_connection
            driver.execute(how)

    @contextlib.contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Serialize the writes of this process's threads on SQLite."""
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=self.lock_timeout_s):
            error = StoreError(
                f'Cannot write the store at {self.name}: another thread of this process has '
                f'been writing for {self.lock_timeout_s:g} s. Nothing was written.'
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
            raise self._error(verb, exc) from exc
        except UnicodeDecodeError as exc:
            # The module sqlite3 cannot decode an error that quotes a damaged schema.
            raise StoreBroken(
                f'Cannot {verb} the store at {self.name}: it is damaged: its schema is not text.'
            ) from exc

    def _error(self, verb: str, exc: Exception) -> StoreError:
        why = exc.orig if isinstance(exc, sa_exc.DBAPIError) and exc.orig else exc
        lost = isinstance(exc, sa_exc.DBAPIError) and exc.connection_invalidated
        words = ' '.join(str(why.args[-1] if why.args else why).split())
        end = '' if words.endswith(('.', '?', '!')) else '.'
        doubt = ' The change might or might not be written.' if lost else ''
        error = self._kind(why)(f'Cannot {verb} the store at {self.name}: {words}{end}{doubt}')
        if lost or self._passes(why):
            error.retryable, error.advice = True, Advice.WAIT
        return error

    def _kind(self, why: BaseException) -> type[StoreError]:
        if isinstance(why, self._driver.IntegrityError):
            return Contradiction
        # SQLite has no code of its own for a table that is not there.
        absent = self.kind == 'sqlite' and str(why).startswith(('no such table', 'no such column'))
        return StoreBroken if absent or not _BROKEN.isdisjoint(_codes(why)) else StoreError

    def _passes(self, why: BaseException) -> bool:
        # psycopg gives no code for a failed connection attempt.
        silent = self.kind == 'postgresql' and getattr(why, 'sqlstate', '') is None
        return silent or not _PASSING.isdisjoint(_codes(why))


def _codes(why: BaseException) -> Iterator[object]:
    """Yield the codes of an error; each driver stores its own elsewhere."""
    code = getattr(why, 'sqlite_errorcode', None)
    yield from (getattr(why, 'sqlstate', None), code, *why.args[:1])
    # An extended code of SQLite has the plain one in its lowest byte.
    yield code and code & 0xFF


def parse_url(url: str) -> sa.URL:
    """Return a URL with the package for its database.

    :raises StoreError: the URL is wrong or not supported, or has no file or database.
    """
    try:
        parsed = sa.make_url(url)
    except (sa_exc.ArgumentError, ValueError):
        # The message would quote the URL, and so the password.
        raise StoreError(
            'Cannot use the URL of the store: it is not a valid URL. Write '
            'sqlite:////PATH, postgresql://USER:PASSWORD@HOST/DATABASE or '
            'mariadb://USER:PASSWORD@HOST/DATABASE.'
        ) from None
    driver = _DRIVERS.get(parsed.get_backend_name())
    if driver is None:
        raise StoreError(
            f'Cannot use a store of kind {parsed.drivername!r}: choose sqlite, postgresql or '
            f'mariadb.'
        )
    if driver == 'sqlite' and (parsed.host or parsed.port or parsed.username):
        raise StoreError(
            f'Cannot use the store at {_without_user(parsed)}: a file has no host. Write '
            f'sqlite:////PATH, with four slashes.'
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
    # A process that is stopped inside a transaction keeps its locks for this time. Then
    # the server ends its session, and waiting processes continue.
    idle_s = min(lock_timeout_s, _IDLE_S)
    if kind == 'postgresql':
        # Imported here, because a store on SQLite does not need psycopg.
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
        # UTC, because local time has an hour twice in autumn.
        'init_command': f"SET time_zone = '+00:00', innodb_lock_wait_timeout = {seconds}, "
        f'idle_transaction_timeout = {max(1, int(idle_s))}',
    }


def _insert_of(kind: str) -> Any:
    """Return the insert of a dialect; the other dialects are not imported."""
    family = 'mysql' if kind == 'mariadb' else kind
    return importlib.import_module(f'sqlalchemy.dialects.{family}').insert
