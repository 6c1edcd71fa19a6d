"""SQLite store of a pool, shared by all processes of a host.

A durable write has reached the disk when it returns: a claim that was reported to a
caller outlives the process and the host.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

from kiln.compute_drivers.authoring import sqlite_files
from kiln.exceptions import ConfigurationError, ServiceUnavailable

_VERSION = 1
# One counter, `last`, orders changes and uses: a greater number is later.
_SCHEMA = """
CREATE TABLE pool (prefix TEXT NOT NULL, last INTEGER NOT NULL);
CREATE TABLE claims (
    id TEXT PRIMARY KEY,
    -- No machine has two claims, whatever the processes do.
    machine TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    build_key TEXT NOT NULL,
    name TEXT NOT NULL,
    amphora_type TEXT NOT NULL,
    flavor TEXT,
    image_id TEXT,
    zone TEXT,
    metadata TEXT NOT NULL,
    created_at REAL NOT NULL,
    "table" TEXT NOT NULL,
    phase TEXT NOT NULL,
    since REAL NOT NULL,
    due REAL,
    failures INTEGER NOT NULL,
    fault TEXT,
    probed_at REAL,
    hard INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    -- Data that the claim command puts on the machine; deleted afterwards.
    payload BLOB,
    UNIQUE (owner, build_key)
);
CREATE INDEX claims_by_due ON claims (due) WHERE due IS NOT NULL;
CREATE INDEX claims_by_name ON claims (owner, name);
CREATE INDEX claims_by_change ON claims (owner, changed);
CREATE TABLE records (
    machine TEXT PRIMARY KEY,
    used INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    until REAL NOT NULL DEFAULT 0,
    reason TEXT,
    maintenance TEXT
);
CREATE TABLE ends (
    nth INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    changed INTEGER NOT NULL
);
CREATE INDEX ends_by_change ON ends (owner, changed);
CREATE TRIGGER claim_ends AFTER DELETE ON claims BEGIN
    INSERT INTO ends (owner, id, changed) SELECT old.owner, old.id, last FROM pool;
    -- The number of ended claims that changes() can report.
    DELETE FROM ends WHERE nth <= last_insert_rowid() - 10000;
END;
"""


class Store:
    """A process's connection to the store, with its lock."""

    def __init__(self, path: Path) -> None:
        """Open the file; create it if it does not exist.

        :raises ConfigurationError: the file cannot be used.
        """
        self._path = path
        self._lock = sqlite_files.ForkSafeLock()
        try:
            # SQLite's other files inherit the mode; claims hold user data for a while.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            with self._lock:
                self._db = self._open()
        except (OSError, sqlite3.Error) as exc:
            raise ConfigurationError(
                f'Cannot keep claims in {path}: {exc}. Name a directory on a local disk that '
                f'kiln can write.'
            ) from exc

    def _open(self) -> sqlite3.Connection:
        db = sqlite_files.connected(self._path, self)
        sqlite_files.share(db)
        db.execute('PRAGMA synchronous = FULL')
        # Deleted rows are overwritten, as they can have held a key.
        db.execute('PRAGMA secure_delete = ON')
        if sqlite_files.lay_out(db, _SCHEMA, _VERSION):
            db.execute('INSERT INTO pool VALUES (?, 0)', (uuid.uuid4().hex[:12],))
        #: Prefix of the cursors of this pool, different in every pool.
        self.prefix: str = db.execute('SELECT prefix FROM pool').fetchone()[0]
        db.execute('COMMIT')
        return db

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Hold the lock and yield the connection for reading."""
        with self._held():
            yield self._db

    @contextlib.contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Hold the lock for one atomic change.

        A change that is not durable outlives the process, but not the host.
        """
        with self._held():
            if not durable:
                self._db.execute('PRAGMA synchronous = NORMAL')
            try:
                self._db.execute('BEGIN IMMEDIATE')
                try:
                    yield self._db
                    self._db.execute('COMMIT')
                except BaseException:
                    with contextlib.suppress(sqlite3.Error):
                        self._db.execute('ROLLBACK')
                    raise
            finally:
                if not durable:
                    self._db.execute('PRAGMA synchronous = FULL')

    def wipe_log(self) -> None:
        """Remove overwritten data from the write-ahead log, unless it is being read."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._db.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchall()

    def close(self) -> None:
        """Close the file; safe to repeat."""
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        try:
            with self._lock.within(sqlite_files.patience_s()):
                sqlite_files.be_patient(self._db)
                yield
        except sqlite3.Error as exc:
            raise ServiceUnavailable(
                f'Cannot use the claims in {self._path}: {exc}. Check the file, its disk, '
                f'and the processes that have it open.'
            ) from exc


def next_number(db: sqlite3.Connection) -> int:
    """Return a new number of the counter; only within a write."""
    db.execute('UPDATE pool SET last = last + 1')
    number: int = db.execute('SELECT last FROM pool').fetchone()[0]
    return number
