"""Backup and restore of a store that is a SQLite file, while processes use it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from kiln.clusters.exceptions import StoreError
from kiln.db.database import Database
from kiln.db.soundness import faults, refuse_faults
from kiln.db.tables.files import drafted
from kiln.db.upkeep import check

_TOOLS = {'postgresql': 'pg_dump', 'mariadb': 'mariadb-dump --single-transaction'}


def back_up(database: Database, target: Path) -> None:
    """Write a copy of the store as it is at one moment; nobody waits for it.

    :raises StoreError: the store is not a file, is damaged, or the copy cannot be written.
    """
    source = _file_of(database)
    if target.exists():
        raise StoreError(f'Cannot write the backup: there is a file {target}. Name another one.')
    if not target.parent.is_dir():
        raise StoreError(
            f'Cannot write the backup: there is no folder {target.parent}. Create it first.'
        )
    refuse_faults(database, f'Cannot back up the store at {database.name}')
    with _explained(f'Cannot write the backup {target}'), drafted(target) as draft:
        _copy(source, draft)


def restore(database: Database, backup: Path) -> Path:
    """Put a backup in the place of the store; return the file that keeps the former store.

    Processes that have the store open see the backup from then on.

    :raises StoreError: the backup cannot be used, or a conductor works on a cluster.
    """
    target = _file_of(database)
    what = f'Cannot restore {backup}'
    if not backup.is_file():
        raise StoreError(f'{what}: there is no such file. Name a backup.')
    _refuse_work(database, what)
    former = target.with_name(f'{target.name}.before-{database.clock.time():.0f}')
    with _explained(what), drafted(target.with_name(f'.{target.name}.restored')) as draft:
        _copy(backup, draft)
        with contextlib.closing(Database(f'sqlite:///{draft}', clock=database.clock)) as copied:
            refuse_faults(copied, what)
            if check(copied).revision is None:
                raise StoreError(f'{what}: it has no tables of kiln. Name a backup.')
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
    # The leases of a damaged store cannot be read.
    if faults(database):
        return
    health = check(database)
    if health.held:
        owners = ', '.join(sorted({lease.owner for lease in health.held}))
        raise StoreError(f'{what}: {owners} works on clusters. Stop all conductors first.')


def _replace(database: Database, target: Path, draft: Path, former: Path) -> None:
    # Other processes have the file open, so its content is replaced, and not the file.
    with contextlib.suppress(sqlite3.DatabaseError):
        with drafted(former) as kept:
            _copy(target, kept)
        database.close()
        _copy(draft, target)
        return
    database.close()
    for suffix in ('-wal', '-shm'):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    former.unlink(missing_ok=True)
    target.rename(former)
    with drafted(target) as new:
        _copy(draft, new)


def _copy(source: Path, target: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(f'file:{source}?mode=ro', uri=True)) as reader,
        contextlib.closing(sqlite3.connect(target)) as writer,
    ):
        # In one step: otherwise it begins again whenever another process has written.
        reader.backup(writer)
        # The log would be a second file beside the copy.
        writer.execute('PRAGMA wal_checkpoint(TRUNCATE)')


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise StoreError(f'{what}: {why}.') from exc
