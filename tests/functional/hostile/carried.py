"""A store in a file, carried into a database on a server."""

import contextlib

import sqlalchemy as sa

from kiln.clock import SYSTEM_CLOCK
from kiln.db.database import Database
from kiln.db.tables.schema import metadata
from kiln.db.tables.upgrade import upgrade
from tests.functional.db.case import emptied, opened

#: PostgreSQL counts the rows of a table by itself, whatever was written into it.
_COUNT_ON = "SELECT setval(pg_get_serial_sequence('{0}', 'seq'), MAX(seq)) FROM {0}"


def carry(path, server):
    """Put what is in a file into the database of a server, and nothing else."""
    database = emptied(server.url)
    file = Database(f'sqlite:///{path}', clock=SYSTEM_CLOCK)
    with contextlib.closing(file), file.reading() as source, database.writing() as target:
        for table in metadata.sorted_tables:
            # It has its row from the beginning.
            if table.name == 'counter':
                target.execute(sa.delete(table))
            if rows := source.execute(sa.select(table)).mappings().all():
                target.execute(sa.insert(table), [dict(row) for row in rows])
                if server.kind == 'postgresql' and table.autoincrement_column is not None:
                    target.execute(sa.text(_COUNT_ON.format(table.name)))


def made_anew(server):
    """Return the database of a server, with no table but kiln's, whatever it had."""
    database = opened(server.url)
    with database.writing() as connection:
        there = sa.MetaData()
        there.reflect(connection)
        there.drop_all(connection)
    upgrade(database)
    return database
