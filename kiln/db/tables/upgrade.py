"""Upgrade of the tables to this version; the only module that uses Alembic."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from kiln.clock import Clock
from kiln.clusters.exceptions import StoreError
from kiln.db.database import Database
from kiln.db.soundness import refuse_faults
from kiln.db.tables.files import drafted

# Alembic has global state, so the threads of a process take turns.
_turn = threading.Lock()
_HISTORY = Path(__file__).with_name('migrations')


def revisions() -> tuple[str, ...]:
    """Return the revisions of all migrations, oldest first."""
    return tuple(step.revision for step in reversed(list(_script().walk_revisions())))


def upgrade(database: Database) -> str | None:
    """Run all missing migrations; return the former revision.

    Safe to repeat, and safe for two processes at a time: the second one waits and finds
    nothing to do. On MariaDB a failed migration can be half done, because DDL cannot be
    rolled back there; restore the backup then.

    :raises StoreError: the database cannot be used, belongs to something else, or has a later
        revision.
    """
    refuse_faults(database, f'Cannot upgrade the store at {database.name}')
    with _turn, database.writing() as connection, database.alone(connection, 'upgrade'):
        before = MigrationContext.configure(connection).get_current_revision()
        if before is not None and before not in revisions():
            raise StoreError(
                f'Cannot upgrade the store at {database.name}: it has revision {before} of a '
                f'later kiln. Install that version.'
            )
        _run(connection)
    return before


def create_file(path: Path, clock: Clock) -> None:
    """Create a SQLite file with all tables, readable only by its owner.

    The file appears atomically with its tables. If several processes create it at the
    same time, the first one wins.

    :raises StoreError: the file cannot be written.
    """
    try:
        with (
            drafted(path) as draft,
            contextlib.closing(Database(f'sqlite:///{draft}', clock=clock)) as database,
        ):
            upgrade(database)
            keep_log(database)
    except OSError as exc:
        raise StoreError(
            f'Cannot create the file {path} of the store: {exc.strerror}. Name another file in '
            f'option [db] url.'
        ) from exc


def keep_log(database: Database) -> None:
    """Switch a SQLite file to WAL mode, permanently."""
    with database.reading() as connection:
        driver: Any = connection.connection.dbapi_connection
        # SQLite cannot change the mode inside a transaction.
        driver.execute('ROLLBACK')
        driver.execute('PRAGMA journal_mode = WAL')


def _run(connection: sa.Connection) -> None:
    script = _script()

    def steps(revision: Any, context: Any) -> Any:
        return script._upgrade_revs('head', revision)

    with EnvironmentContext(Config(), script, fn=steps, destination_rev='head') as environment:
        environment.configure(connection=connection, transactional_ddl=False)
        environment.run_migrations()


def _script() -> ScriptDirectory:
    return ScriptDirectory(str(_HISTORY))
