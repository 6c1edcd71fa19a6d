"""The store: opened once, handed to whoever asks or writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.cluster_exceptions import StoreError
from kiln.cluster_models import Lease
from kiln.db.batch import Batch, Writing
from kiln.db.clusters import Clusters, Templates
from kiln.db.database import Database
from kiln.db.events import Events
from kiln.db.keys import KeyFile
from kiln.db.leases import Leases
from kiln.db.nodes import Nodes
from kiln.db.operations import Journal, Operations
from kiln.db.receipts import Receipts
from kiln.db.schema import REVISION
from kiln.db.secrets import Secrets
from kiln.db.upkeep import revision_of

#: Where the keys are if nothing else is said and the store is on a server.
SERVER_KEYS = Path('/etc/kiln/kiln.keys')


class Store:
    """All that is known of clusters, by subject; may be used by several threads at once.

    Each method returns once the database has answered, and what it wrote is on
    the disk then. Any of them may raise StoreError, whose ``retryable`` says
    whether the same may succeed a moment later.
    """

    def __init__(self, database: Database, keys: KeyFile) -> None:
        self._database = database
        self._writing = Writing(database, keys)
        self.clusters = Clusters(database)
        self.templates = Templates(database)
        self.nodes = Nodes(database)
        self.operations = Operations(database)
        self.journal = Journal(database)
        self.leases = Leases(database)
        self.events = Events(database)
        self.receipts = Receipts(database)
        self.secrets = Secrets(database, keys)

    @contextlib.contextmanager
    def writing(self, lease: Lease) -> Iterator[Batch]:
        """Gather changes of a cluster, and write them in one commit at the end.

        Make no request inside: from ``accept`` on, others wait. Where the block
        raises, nothing is written. Repeated as a whole it writes the same again,
        and each event once more.

        :raises LeaseLost: somebody else has the lease; nothing was written.
        :raises StoreError: nothing was written, but where the message doubts it.
        """
        with contextlib.ExitStack() as stack:
            batch = Batch(self._writing, lease, stack)
            yield batch
            batch.flush()

    def close(self) -> None:
        """Let go of the database; safe to repeat."""
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(
    url: str,
    *,
    clock: Clock = SYSTEM_CLOCK,
    keys: str | os.PathLike[str] | None = None,
    lock_timeout_s: float = 30.0,
) -> Store:
    """Open a store; a file that is not there yet is made, with all tables.

    ``keys`` names the key file; without it that is a file beside the one of
    SQLite, made when first needed, or ``SERVER_KEYS``. A lock that others hold is
    waited for as long as ``lock_timeout_s``.

    :raises StoreError: it cannot be used, or its tables are of another version;
        the message names the command that helps.
    """
    database = open_database(url, clock=clock, lock_timeout_s=lock_timeout_s)
    try:
        _check_revision(database)
    except BaseException:
        database.close()
        raise
    return Store(database, key_file(database, keys))


def open_database(url: str, *, clock: Clock, lock_timeout_s: float = 30.0) -> Database:
    """Open a database of any version; a file that is not there yet is made.

    :raises StoreError: it cannot be used.
    """
    database = Database(url, clock=clock, lock_timeout_s=lock_timeout_s)
    if database.path and not database.path.exists():
        # Alembic is slow to import, and seldom needed.
        from kiln.db.upgrade import create_file

        create_file(database.path, clock)
    return database


def key_file(database: Database, path: str | os.PathLike[str] | None) -> KeyFile:
    """Return the keys of a database."""
    if database.path:
        return KeyFile(path or database.path.with_suffix('.keys'), make=True)
    # Every host must have the same, so none makes its own.
    return KeyFile(path or SERVER_KEYS)


def _check_revision(database: Database) -> None:
    found = revision_of(database)
    if found == REVISION:
        return
    where = f'Cannot use the store at {database.name}'
    if found is None:
        raise StoreError(f"{where}: it has no tables of kiln. Run 'kiln db upgrade' to make them.")
    if found < REVISION:
        raise StoreError(
            f'{where}: it has revision {found}, and this version of kiln needs {REVISION}. Stop '
            f"all that use it, make a backup, and run 'kiln db upgrade'."
        )
    raise StoreError(
        f'{where}: it has revision {found} of a later version of kiln, and this one knows '
        f"{REVISION}. Install that version; 'kiln db check' tells more."
    )
