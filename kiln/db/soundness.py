"""What is wrong with a database as a whole: damage, missing tables, tables of something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import sqlalchemy as sa

from kiln.clusters.exceptions import StoreError
from kiln.db.database import Database
from kiln.db.tables import schema

_OWN = frozenset(schema.metadata.tables)
#: Alembic's own table, which other programs have, too.
_ALEMBIC = 'alembic_version'
#: Damaged places that are named.
_MOST = 3


class Fault(NamedTuple):
    """What is wrong, and what an operator does about it."""

    text: str
    remedy: str


_REPLACE = "Replace it by a backup: 'kiln db restore FILE' does so for a file."
_CORRECT = 'Correct option [db] url: kiln needs a database of its own.'


def faults(database: Database) -> tuple[Fault, ...]:
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
        return (Fault(f'it is damaged: {why}', _REPLACE),)


def refuse_faults(database: Database, what: str) -> None:
    """Return if nothing is wrong with a database.

    :raises StoreError: something is.
    """
    if found := faults(database):
        raise StoreError(f'{what}: {"; ".join(one.text for one in found)}. {found[0].remedy}')


def _damage(connection: sa.Connection) -> tuple[Fault, ...]:
    rows = connection.execute(sa.text(f'PRAGMA integrity_check({_MOST})')).scalars()
    return tuple(
        Fault(f'it is damaged: {" ".join(row.split())}', _REPLACE) for row in rows if row != 'ok'
    )


def _tables(connection: sa.Connection) -> tuple[Fault, ...]:
    there = set(sa.inspect(connection).get_table_names())
    if there and not there & _OWN:
        others = ', '.join(sorted(there - {_ALEMBIC})) or _ALEMBIC
        text = f'it belongs to something else, whose tables it has: {others}'
        return (Fault(text, _CORRECT),)
    if _ALEMBIC not in there:
        return ()
    found = connection.scalar(sa.text('SELECT version_num FROM alembic_version'))
    # Earlier revisions have fewer of both.
    if found != schema.REVISION:
        return ()
    if missing := sorted(_OWN - there):
        return (Fault(f'it lacks tables: {", ".join(missing)}', _REPLACE),)
    missing = sorted(_columns(connection))
    return (Fault(f'it lacks columns: {", ".join(missing)}', _REPLACE),) if missing else ()


def _columns(connection: sa.Connection) -> Iterator[str]:
    """Yield the columns that are not there."""
    there = sa.inspect(connection).get_multi_columns(filter_names=sorted(_OWN))
    names = {name: {one['name'] for one in columns} for (_, name), columns in there.items()}
    for table in schema.metadata.sorted_tables:
        for column in table.columns:
            if column.name not in names[table.name]:
                yield f'{table.name}.{column.name}'
