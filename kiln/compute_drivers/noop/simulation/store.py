"""SQLite store of the simulated cloud, in memory or in a shared file.

Several processes can use a file at once, and each can die at any point without
damage to it. States are a function of time: a row has its next state and the time
when that is due, and the next access applies it.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import uuid
from collections.abc import Callable, Iterator

from kiln.compute_drivers.authoring import sqlite_files
from kiln.exceptions import ConfigurationError, ServiceUnavailable

_VERSION = 1
# When a process last changed a shared file, by the clock of the host. An older cloud has none.
_CLOCK = 'CREATE TABLE IF NOT EXISTS clock (seen_at REAL NOT NULL)'
# Seconds between two notes of it: a smaller jump makes no action noticeably longer.
_NOTED_S = 1.0
# The statements that begin, keep and undo a change. In memory, all changes are
# savepoints of one transaction that never ends: the cost of a COMMIT there grows
# with the size of the database, that of a savepoint does not.
_IN_FILE = ('BEGIN IMMEDIATE', 'COMMIT', 'ROLLBACK')
_IN_MEMORY = ('SAVEPOINT change', 'RELEASE change', 'ROLLBACK TO change')

#: How many deleted machines changes() can report.
TOMBSTONES = 100_000

# One counter, `last`, numbers machines and changes alike: no number or id is
# used twice, and a greater number is a newer change.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS cloud (prefix TEXT NOT NULL, last INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS machines (
    number INTEGER PRIMARY KEY,
    -- Empty if it belongs to nobody.
    owner TEXT NOT NULL,
    build_key TEXT,
    name TEXT NOT NULL,
    amphora_type TEXT NOT NULL,
    flavor TEXT,
    image_id TEXT,
    zone TEXT NOT NULL,
    host TEXT NOT NULL,
    group_id TEXT,
    metadata TEXT NOT NULL,
    spec TEXT NOT NULL,
    created_at REAL NOT NULL,
    -- 0 until it runs for the first time.
    boots INTEGER NOT NULL,
    state TEXT NOT NULL,
    task TEXT,
    fault TEXT,
    target TEXT,
    target_fault TEXT,
    due REAL,
    changed INTEGER NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS machines_by_key ON machines (owner, build_key);
CREATE INDEX IF NOT EXISTS machines_by_name ON machines (owner, name);
CREATE INDEX IF NOT EXISTS machines_by_change ON machines (owner, changed);
CREATE INDEX IF NOT EXISTS machines_by_due ON machines (due) WHERE due IS NOT NULL;
CREATE INDEX IF NOT EXISTS machines_by_group ON machines (group_id) WHERE group_id IS NOT NULL;
CREATE TABLE IF NOT EXISTS ports (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    network_id TEXT NOT NULL,
    address TEXT NOT NULL,
    mac TEXT NOT NULL,
    machine INTEGER,
    -- The site that it was created for; NULL for a port of the caller.
    owner TEXT,
    -- 1 if it stays when its machine is removed.
    kept INTEGER NOT NULL,
    created_at REAL NOT NULL,
    UNIQUE (network_id, address)
);
CREATE INDEX IF NOT EXISTS ports_by_machine ON ports (machine) WHERE machine IS NOT NULL;
CREATE TABLE IF NOT EXISTS server_groups (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    policy TEXT NOT NULL,
    owner TEXT NOT NULL,
    created_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS used (zone TEXT PRIMARY KEY, machines INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS tombstones (
    nth INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    number INTEGER NOT NULL,
    changed INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS tombstones_by_change ON tombstones (owner, changed);
CREATE TRIGGER IF NOT EXISTS machine_comes AFTER INSERT ON machines BEGIN
    INSERT INTO used VALUES (new.zone, 1)
        ON CONFLICT (zone) DO UPDATE SET machines = machines + 1;
END;
CREATE TRIGGER IF NOT EXISTS machine_goes AFTER DELETE ON machines BEGIN
    UPDATE used SET machines = machines - 1 WHERE zone = old.zone;
    DELETE FROM ports WHERE machine = old.number AND NOT kept;
    UPDATE ports SET machine = NULL WHERE machine = old.number;
    INSERT INTO tombstones (owner, number, changed)
        SELECT old.owner, old.number, last FROM cloud;
    DELETE FROM tombstones WHERE nth = last_insert_rowid() - {tombstones};
END;
"""


class Store:
    """The tables, with their lock and their connection."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        dice: random.Random | None,
        *,
        time: Callable[[], float],
        tombstones: int = TOMBSTONES,
    ) -> None:
        """Open the tables.

        :param time: the clock of a shared file.
        """
        self.shared = path is not None
        self._time = time
        self._schema = _SCHEMA.replace('{tombstones}', str(tombstones))
        self._begin, self._keep, self._drop = _IN_FILE if self.shared else _IN_MEMORY
        self._where = 'the memory' if path is None else f'file {os.fspath(path)}'
        self._lock = sqlite_files.ForkSafeLock()
        try:
            with self._lock:
                self._db = self._open(':memory:' if path is None else os.fspath(path), dice)
        except sqlite3.Error as exc:
            raise ConfigurationError(
                f'Cannot keep a simulated cloud in {self._where}: {exc}. Name the file of an '
                f'earlier cloud, or a new file in a writable directory.'
            ) from exc

    def _open(self, path: str, dice: random.Random | None) -> sqlite3.Connection:
        db = sqlite_files.connected(path, self)
        if self.shared:
            sqlite_files.share(db)
            # Survives the death of a process; only a crash of the whole host could
            # undo the newest calls.
            db.execute('PRAGMA synchronous = NORMAL')
            db.execute('PRAGMA cache_size = -65536')
        if sqlite_files.lay_out(db, self._schema, _VERSION):
            bits = dice.getrandbits(128) if dice else uuid.uuid4().int
            prefix = str(uuid.UUID(int=bits, version=4))[:24]
            db.execute('INSERT INTO cloud VALUES (?, 0)', (prefix,))
        self.prefix: str = db.execute('SELECT prefix FROM cloud').fetchone()[0]
        if self.shared:
            db.execute(_CLOCK)
            db.execute('INSERT INTO clock SELECT 0 WHERE NOT EXISTS (SELECT * FROM clock)')
            db.execute('COMMIT')
        return db

    @contextlib.contextmanager
    def read(self, now: float) -> Iterator[sqlite3.Connection]:
        """Hold the lock to read the state at a time."""
        with self._held():
            try:
                if self._any_due(now) or self._is_set_back():
                    self._db.execute(self._begin)
                    self._follow_clock()
                    self._settle(now)
                    self._db.execute(self._keep)
                yield self._db
            except sqlite3.Error as exc:
                self._undo()
                raise self._unusable(exc) from exc

    @contextlib.contextmanager
    def write(self, now: float) -> Iterator[sqlite3.Connection]:
        """Hold the lock for one atomic change."""
        with self._held():
            try:
                self._db.execute(self._begin)
                self._follow_clock()
                if self._any_due(now):
                    self._settle(now)
                yield self._db
                self._db.execute(self._keep)
            except sqlite3.Error as exc:
                self._undo()
                raise self._unusable(exc) from exc
            # After any exception, no part of the change must stay.
            except BaseException:
                self._undo()
                raise

    def next_numbers(self, db: sqlite3.Connection, count: int = 1) -> int:
        """Reserve numbers, and return the first; only within a write."""
        # Two plain statements take half the time of one with RETURNING.
        last: int = db.execute('SELECT last FROM cloud').fetchone()[0]
        db.execute('UPDATE cloud SET last = ?', (last + count,))
        return last + 1

    def id_of(self, number: int) -> str:
        """Return the id for the number of a machine."""
        return f'{self.prefix}{number:012x}'

    def number_of(self, amphora_id: str) -> int:
        """Return the number in an id, or -1, which no machine has."""
        try:
            number = int(amphora_id[len(self.prefix) :], 16)
        except ValueError:
            return -1
        # SQLite has no greater integers, so no machine can have such a number.
        return number if self.id_of(number) == amphora_id and number < 1 << 63 else -1

    def close(self) -> None:
        """Close the file; safe to repeat."""
        with self._lock:
            self._db.close()

    def _held(self) -> contextlib.AbstractContextManager[None]:
        # Nobody else uses a memory for long.
        return self._held_within_time() if self.shared else self._lock

    @contextlib.contextmanager
    def _held_within_time(self) -> Iterator[None]:
        try:
            with self._lock.within(sqlite_files.patience_s()):
                sqlite_files.be_patient(self._db)
                yield
        except sqlite3.Error as exc:
            raise self._unusable(exc) from exc

    def _is_set_back(self) -> bool:
        query = 'SELECT 1 FROM clock WHERE seen_at > ?'
        return self.shared and self._db.execute(query, (self._time(),)).fetchone() is not None

    def _follow_clock(self) -> None:
        """Let actions end as much earlier as the clock was set back: they take no longer then."""
        if not self.shared:
            return
        now = self._time()
        seen_at = self._db.execute('SELECT seen_at FROM clock').fetchone()[0]
        if now < seen_at:
            self._db.execute('UPDATE machines SET due = due - ?', (seen_at - now,))
            self._db.execute('UPDATE machines SET created_at = min(created_at, ?)', (now,))
        elif now - seen_at < _NOTED_S:
            return
        self._db.execute('UPDATE clock SET seen_at = ?', (now,))

    def _any_due(self, now: float) -> bool:
        return (
            self._db.execute('SELECT 1 FROM machines WHERE due <= ? LIMIT 1', (now,)).fetchone()
            is not None
        )

    def _settle(self, now: float) -> None:
        """Apply all next states that are due; the cost depends only on their number."""
        changed = self.next_numbers(self._db)
        self._db.execute("DELETE FROM machines WHERE due <= ? AND target = 'deleted'", (now,))
        self._db.execute(
            'UPDATE machines SET state = target, fault = target_fault, task = NULL, '
            'target = NULL, target_fault = NULL, due = NULL, changed = ?, '
            "boots = max(boots, target = 'active') WHERE due <= ?",
            (changed, now),
        )

    def _undo(self) -> None:
        # There is nothing to undo if BEGIN itself failed, or if SQLite has ended the
        # transaction, for example because the disk is full.
        with contextlib.suppress(sqlite3.Error):
            self._db.execute(self._drop)
            if not self.shared:
                self._db.execute(self._keep)

    def _unusable(self, exc: sqlite3.Error) -> ServiceUnavailable:
        return ServiceUnavailable(
            f'Cannot use the simulated cloud in {self._where}: {exc}. Check the file, its '
            f'disk, and the processes that have it open.'
        )
