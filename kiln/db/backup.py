"""Backup and restore of a store that is a SQLite file, while processes use it."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kiln.clusters.exceptions import StoreError
from kiln.db.database import Database
from kiln.db.soundness import refuse_faults
from kiln.db.tables.files import drafted
from kiln.db.tables.schema import REVISION
from kiln.db.upkeep import check, revision_of

_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
#: Seconds between two attempts to write what another process is writing.
_PAUSE_S = 0.05
_TOOLS = {'postgresql': 'pg_dump', 'mariadb': 'mariadb-dump --single-transaction'}


def back_up(database: Database, target: Path) -> None:
    """Write a copy of the store as it is at one moment; nobody waits for it.

    :raises StoreError: the store is not a file, is damaged, or the copy cannot be written.
    """
    source = _file_of(database)
    # A name can be one that no file can have.
    with _explained(f'Cannot write the backup {target}'):
        exists, has_folder = target.exists(), target.parent.is_dir()
    if exists:
        raise StoreError(f'Cannot write the backup: there is a file {target}. Name another one.')
    if not has_folder:
        raise StoreError(
            f'Cannot write the backup: there is no folder {target.parent}. Create it first.'
        )
    refuse_faults(database, f'Cannot back up the store at {database.name}')
    with _explained(f'Cannot write the backup {target}'), drafted(target) as draft:
        _copy(source, draft, database.lock_timeout_s)


def restore(database: Database, backup: Path) -> Path:
    """Put a backup in the place of the store; return the file that keeps the former store.

    Processes that have the store open see the backup from then on.

    :raises StoreError: the backup cannot be used, a conductor works on a cluster, or another
        process has been writing for too long; nothing was changed.
    """
    target = _file_of(database)
    what = f'Cannot restore {backup}'
    with _explained(what):
        is_file = backup.is_file()
    if not is_file:
        raise StoreError(f'{what}: there is no such file. Name a backup.')
    _refuse_work(database, what)
    former = target.with_name(f'{target.name}.before-{database.clock.time():.0f}')
    # Only its owner can read the folder, and it goes with the copy.
    folder = tempfile.TemporaryDirectory(prefix=f'.{target.name}.', dir=target.parent)
    with _explained(what), folder as name:
        draft = Path(name, target.name)
        _copy(backup, draft, database.lock_timeout_s)
        with contextlib.closing(Database(f'sqlite:///{draft}', clock=database.clock)) as copied:
            refuse_faults(copied, what)
            revision = revision_of(copied)
        if revision is None:
            raise StoreError(f'{what}: it has no tables of kiln. Name a backup.')
        if revision > REVISION:
            raise StoreError(
                f'{what}: it has revision {revision} of a later kiln. Install that version.'
            )
        _replace(database, target, draft, former)
    return former


def _file_of(database: Database) -> Path:
    if database.path is None:
        raise StoreError(
            f'Cannot do this with the store at {database.name}: it is not a file. Use the '
            f"database's own tool, such as {_TOOLS[database.kind]}."
        )
    return database.path


def _refuse_work(database: Database, what: str) -> None:
    """Refuse while a conductor holds a cluster: it would go on from what it remembers."""
    # The check of a damaged store has no leases.
    if held := check(database).held:
        owners = ', '.join(sorted({lease.owner for lease in held}))
        raise StoreError(f'{what}: {owners} works on clusters. Stop all conductors first.')


def _replace(database: Database, target: Path, draft: Path, former: Path) -> None:
    limit_s = database.lock_timeout_s
    database.close()
    # Other processes have the file open, so its content is replaced, and not the file.
    try:
        with drafted(former) as kept:
            _copy(target, kept, limit_s)
        _copy(draft, target, limit_s)
        return
    except sqlite3.OperationalError:
        # It is in use, or cannot be written.
        former.unlink(missing_ok=True)
        raise
    except sqlite3.DatabaseError:
        former.unlink(missing_ok=True)
    # What is damaged has no content that could be replaced.
    for suffix in ('-wal', '-shm'):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    target.rename(former)
    with drafted(target) as new:
        _copy(draft, new, limit_s)


def _copy(source: Path, target: Path, limit_s: float) -> None:
    """Copy the content of a database; others that write to the target hold it up for a time."""
    end = time.monotonic() + limit_s

    def go_on(status: int, remaining: int, total: int) -> None:
        if status in _LOCKED and time.monotonic() >= end:
            raise sqlite3.OperationalError(f'another process has been writing for {limit_s:g} s')

    with (
        contextlib.closing(
            sqlite3.connect(f'{source.absolute().as_uri()}?mode=ro', uri=True)
        ) as reader,
        contextlib.closing(sqlite3.connect(target, timeout=0.0)) as writer,
    ):
        # In one step: otherwise it begins again whenever another process has written.
        reader.backup(writer, progress=go_on, sleep=_PAUSE_S)
        # The log would be a second file beside the copy.
        writer.execute('PRAGMA wal_checkpoint(TRUNCATE)')


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise StoreError(f'{what}: {why}.') from exc
