"""What is wrong with a database as a whole: damage, missing tables, tables of something else."""

from __future__ import annotations

import sqlalchemy as sa

from kiln.clusters.exceptions import StoreError
from kiln.db.database import Database
from kiln.db.tables import schema

_OWN = frozenset(schema.metadata.tables)
#: Alembic's own table, which other programs have, too.
_ALEMBIC = 'alembic_version'
#: Damaged places that are named.
_MOST = 3


def faults(database: Database) -> tuple[str, ...]:
    """Return what is wrong with a database, whatever its revision; empty if nothing is.

    Reads the whole of a SQLite file.

    :raises StoreError: the database cannot be reached now.
    """
    try:
        with database.reading() as connection:
            found = _damage(connection) if database.kind == 'sqlite' else ()
            return found or _tables(connection)
    except StoreError as exc:
        if exc.retryable or database.kind != 'sqlite':
            raise
        why = str(exc.__cause__ or exc).splitlines()[0]
        return (f'it is damaged: {why}',)


def refuse_faults(database: Database, what: str) -> None:
    """Return if nothing is wrong with a database.

    :raises StoreError: something is.
    """
    if found := faults(database):
        raise StoreError(f'{what}: {"; ".join(found)}. {remedy(found)}')


def remedy(found: tuple[str, ...]) -> str:
    """Return what an operator does about the faults of a store."""
    if any('something else' in one for one in found):
        return 'Correct option [db] url: kiln needs a database of its own.'
    return "Replace it by a backup: 'kiln db restore FILE' does so for a file."


def _damage(connection: sa.Connection) -> tuple[str, ...]:
    rows = connection.execute(sa.text(f'PRAGMA integrity_check({_MOST})')).scalars()
    return tuple(f'it is damaged: {" ".join(row.split())}' for row in rows if row != 'ok')


def _tables(connection: sa.Connection) -> tuple[str, ...]:
    there = set(sa.inspect(connection).get_table_names())
    if there and not there & _OWN:
        others = ', '.join(sorted(there - {_ALEMBIC})) or _ALEMBIC
        return (f'it belongs to something else, whose tables it has: {others}',)
    if _ALEMBIC not in there:
        return ()
    # Earlier revisions have fewer tables.
    found = connection.scalar(sa.text('SELECT version_num FROM alembic_version'))
    missing = sorted(_OWN - there) if found == schema.REVISION else []
    return (f'it lacks tables: {", ".join(missing)}',) if missing else ()
