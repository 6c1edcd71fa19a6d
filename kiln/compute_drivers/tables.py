"""SQLite files that several processes open at once: how drivers open and lay out theirs."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator

#: Seconds to wait for another process that writes.
BUSY_S = 30.0


def connected(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Return a connection that any thread may use, one at a time; rows have names.

    Nothing is written before a statement says so, and no transaction begins by itself.
    """
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    return db


def share(db: sqlite3.Connection) -> None:
    """Let processes read a file while another writes it."""
    # SQLite's own patience does not cover this change, which another process that
    # opens or leaves the file may be in the way of.
    give_up = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute('PRAGMA journal_mode = WAL')
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
        time.sleep(0.01)


def lay_out(db: sqlite3.Connection, schema: str, version: int) -> bool:
    """Begin a write, make the tables where there are none, and return whether there were none.

    The caller fills new tables, and commits.

    :raises sqlite3.DatabaseError: the tables are of another version.
    """
    db.execute('BEGIN IMMEDIATE')
    found = db.execute('PRAGMA user_version').fetchone()[0]
    if found == version:
        return False
    if found:
        raise sqlite3.DatabaseError(f'it has version {found}, not {version}')
    for statement in _statements(schema):
        db.execute(statement)
    db.execute(f'PRAGMA user_version = {version}')
    return True


def _statements(script: str) -> Iterator[str]:
    # executescript() would commit first, and two processes that open one new
    # file at a time must not both make its tables.
    statement = ''
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ''
