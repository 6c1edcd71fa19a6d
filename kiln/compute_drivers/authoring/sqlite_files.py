"""SQLite files shared by several processes: opening, locking and schema."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from typing import ClassVar

from kiln.clock import current_deadline

#: Seconds to wait for another process that is writing.
BUSY_S = 30.0


class ForkSafeLock:
    """A lock to hold around every SQLite call, so that no fork happens during one.

    The child of a fork inherits SQLite's state of each file in the process. A file that
    another thread was just locking stays locked in the child, which then waits for ever,
    even with a connection of its own.
    """

    _all: ClassVar[weakref.WeakSet[ForkSafeLock]] = weakref.WeakSet()
    #: Locks that a thread holds while it forks.
    _held: ClassVar[tuple[ForkSafeLock, ...]] = ()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all.add(self)

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Hold the lock.

        :raises sqlite3.OperationalError: another thread holds it for longer than that.
        """
        if not self._lock.acquire(timeout=seconds):
            raise sqlite3.OperationalError('it is locked, and another thread waits for it')
        try:
            yield
        finally:
            self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @classmethod
    def before_fork(cls) -> None:
        # In a fixed order, because several threads can fork at a time.
        held = tuple(sorted(cls._all, key=id))
        for one in held:
            one._lock.acquire()
        cls._held = held

    @classmethod
    def after_fork(cls) -> None:
        held, cls._held = cls._held, ()
        for one in held:
            one._lock.release()


os.register_at_fork(
    before=ForkSafeLock.before_fork,
    after_in_parent=ForkSafeLock.after_fork,
    after_in_child=ForkSafeLock.after_fork,
)


def connected(path: str | os.PathLike[str], owner: object) -> sqlite3.Connection:
    """Return a connection that any thread can use, one at a time; rows have names.

    Nothing is written before an explicit statement, and no transaction begins by itself.
    The connection is closed with its owner, which might have failed to open the file.
    """
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    # Not at exit: a daemon thread might be using it, which would crash.
    weakref.finalize(owner, db.close).atexit = False
    return db


def patience_s() -> float:
    """Return the seconds that a call waits for others that use a file: its deadline at most."""
    deadline = current_deadline()
    return BUSY_S if deadline is None else max(0.0, min(BUSY_S, deadline.remaining_s()))


def be_patient(db: sqlite3.Connection) -> None:
    """Let the next statements wait for other processes as long as their call does."""
    db.execute(f'PRAGMA busy_timeout = {int(patience_s() * 1000)}')


def share(db: sqlite3.Connection) -> None:
    """Allow processes to read a file while another process writes it."""
    # SQLite's busy timeout does not cover this change, which can collide with another
    # process that opens or closes the file.
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
    """Begin a write, create missing tables, and return True if they were missing.

    The caller fills new tables, and commits.

    :raises sqlite3.DatabaseError: the tables have another version.
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


def last_seen(db: sqlite3.Connection, ends: str, digits: str, last: int) -> int | None:
    """Return the number in a cursor; None if it is not one, or ends since are forgotten.

    ``ends`` is the table of removed rows, and ``last`` the greatest number so far.
    """
    if not digits.isdecimal() or int(digits) > last:
        return None
    # Ends are deleted oldest first: an end before the oldest one left might never have
    # been reported.
    query = f'SELECT nth, changed FROM {ends} ORDER BY nth LIMIT 1'  # noqa: S608  # ours
    oldest = db.execute(query).fetchone()
    forgotten = oldest is not None and oldest['nth'] > 1 and oldest['changed'] > int(digits)
    return None if forgotten else int(digits)


def _statements(script: str) -> Iterator[str]:
    # executescript() would commit first, and two processes that open a new file at the
    # same time must not both create its tables.
    statement = ''
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ''
