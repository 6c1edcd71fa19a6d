"""The snapshot of a cloud, and the way back to it while everything runs.

The snapshot is a copy of each table that has rows, beside the tables themselves. A
reset compares checksums and writes back, in one transaction, the tables that differ;
so its duration depends on the size of the difference, and no service is restarted.
"""

import pathlib
import shutil
import time
from collections.abc import Sequence

from .backends import Database, flush_memcached
from .errors import CloudError
from .place import Place
from .services import Service

PREFIX = 'golden_'
# A request under way writes after the reset, and on a busy machine not at once: so many
# passes in a row that find nothing end it.
QUIET = 6
PASSES = 20
PAUSE_S = 0.2
# MariaDB's errors for a row that another session holds: deadlock and time-out.
LOCKED = ('ERROR 1213', 'ERROR 1205')


class Golden:
    """The one snapshot of a place."""

    def __init__(self, place: Place, database: Database, services: Sequence[Service]):
        self._place = place
        self._database = database
        self._services = services

    def take(self) -> None:
        """Copy all tables and stored files; the previous snapshot is deleted."""
        statements = []
        for name in self._databases():
            golden = _quote(PREFIX + name)
            statements.append(f'drop database if exists {golden};create database {golden};')
        for table, checksum in self._checksums(self._live()).items():
            if checksum:
                copy = PREFIX + table
                statements.append(f'create table {_quote(copy)} like {_quote(table)};')
                statements.append(_fill(copy, table))
        self._database.query('\n'.join(statements))
        for folder in self._folders():
            _mirror(folder, self._place.golden / folder.relative_to(self._place.data))

    def restore(self) -> int:
        """Bring back the snapshot; return the number of passes that wrote."""
        live, quiet, written = self._live(), 0, 0
        for number in range(PASSES):
            changed = self._changed(live)
            quiet = 0 if changed else quiet + 1
            if changed or not number:
                self._back(changed)
                written = number + 1
            elif quiet >= QUIET:
                self._settle()
                return written
            time.sleep(PAUSE_S)
        raise CloudError(f'requests keep writing to {", ".join(changed) or "the databases"}')

    def _back(self, changed: Sequence[str]) -> None:
        self._write_back(changed)
        for folder in self._folders():
            _mirror(self._place.golden / folder.relative_to(self._place.data), folder)
        flush_memcached(self._place)
        # Nova's hosts check its time to notice that their guests have changed.
        (self._place.data / 'reset').touch()

    def _settle(self) -> None:
        for service in self._services:
            service.settle(self._database)

    def _databases(self) -> list[str]:
        return [name for service in self._services for name in service.databases]

    def _folders(self) -> list[pathlib.Path]:
        return [folder for service in self._services for folder in service.stored()]

    def _live(self) -> list[str]:
        """Return the tables that a reset restores."""
        living = {table for service in self._services for table in service.living_tables}
        return [table for table in self._tables('') if table not in living]

    def _tables(self, prefix: str) -> list[str]:
        names = ', '.join(f"'{prefix}{name}'" for name in self._databases())
        rows = self._database.query(
            'select concat(table_schema, ".", table_name) from information_schema.tables '
            f'where table_type = "BASE TABLE" and table_schema in ({names})'
        )
        return [table for (table,) in rows]

    def _changed(self, live: Sequence[str]) -> list[str]:
        golden = self._checksums(self._tables(PREFIX))
        if not golden:
            raise CloudError('no snapshot found; take one while the cloud is up')
        now = self._checksums(live)
        return [table for table in live if now[table] != golden.get(PREFIX + table, 0)]

    def _checksums(self, tables: Sequence[str]) -> dict[str, int]:
        """Return a checksum for each table; 0 if it has no rows."""
        if not tables:
            return {}
        rows = self._database.query(f'checksum table {", ".join(map(_quote, tables))}')
        return {table: int(checksum) for table, checksum in rows}

    def _write_back(self, tables: Sequence[str]) -> None:
        copies = set(self._tables(PREFIX))
        statements = ['set foreign_key_checks = 0, innodb_lock_wait_timeout = 5;begin;']
        for table in tables:
            statements.append(f'delete from {_quote(table)};')
            if PREFIX + table in copies:
                statements.append(_fill(table, PREFIX + table))
        try:
            self._database.query('\n'.join([*statements, 'commit;']))
        except CloudError as error:
            # Another session still holds a row: nothing was written, the next pass will.
            if not any(code in str(error) for code in LOCKED):
                raise


def _quote(table: str) -> str:
    return '.'.join(f'`{part}`' for part in table.split('.'))


def _fill(target: str, source: str) -> str:
    return f'insert into {_quote(target)} select * from {_quote(source)};'


def _mirror(source: pathlib.Path, target: pathlib.Path) -> None:
    """Make a folder equal to another; existing files are not copied again."""
    target.mkdir(parents=True, exist_ok=True)
    wanted = {path.name for path in source.iterdir()}
    for path in target.iterdir():
        if path.name not in wanted:
            path.unlink()
    for name in wanted - {path.name for path in target.iterdir()}:
        shutil.copy2(source / name, target / name)
