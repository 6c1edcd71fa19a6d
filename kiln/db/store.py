"""Facade of the store of cluster state, and functions that open it."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.clusters.exceptions import StoreError
from kiln.clusters.models import Lease
from kiln.db.batch import Batch, Writing
from kiln.db.database import Database
from kiln.db.keys import KeyFile
from kiln.db.leases import Leases
from kiln.db.records.census import Censuses
from kiln.db.records.clusters import Clusters, Templates
from kiln.db.records.events import Events
from kiln.db.records.nodes import Nodes
from kiln.db.records.operations import Journal, Operations
from kiln.db.records.receipts import Receipts
from kiln.db.records.secrets import Secrets
from kiln.db.tables.schema import REVISION
from kiln.db.upkeep import revision_of
from kiln.plugins.service_credentials import credential

LOG = logging.getLogger(__name__)

#: The default key file of a store on a server.
SERVER_KEYS = Path('/etc/kiln/kiln.keys')
#: The name of the keys among the credentials of a service.
CREDENTIAL = 'kiln.keys'


class Store:
    """All stored state of clusters, by subject; thread-safe.

    Each method returns once the database has answered; its writes are then on disk. Every
    method can raise StoreError; if its ``retryable`` is true, the same call might succeed
    a moment later.
    """

    def __init__(self, database: Database, keys: KeyFile) -> None:
        self._database = database
        self._keys = keys
        self.clusters: Clusters = Clusters(database)
        self.templates: Templates = Templates(database)
        self.nodes: Nodes = Nodes(database)
        self.operations: Operations = Operations(database)
        self.journal: Journal = Journal(database)
        self.leases: Leases = Leases(database)
        self.events: Events = Events(database)
        self.censuses: Censuses = Censuses(database)
        self.receipts: Receipts = Receipts(database)
        self.secrets: Secrets = Secrets(database, keys)

    @functools.cached_property
    def _writing(self) -> Writing:
        # A caller that only reads does not compile it.
        return Writing(self._database, self._keys)

    @contextlib.contextmanager
    def writing(self, lease: Lease) -> Iterator[Batch]:
        """Collect changes of a cluster, and write them in one commit at the end.

        Make no requests inside: after ``accept``, other writers wait. If the block raises,
        nothing is written. If the block is repeated, it writes the same rows again, but
        each event a second time.

        :raises LeaseLost: another owner has the lease; nothing was written.
        :raises StoreError: nothing was written, unless the message leaves it open.
        """
        with contextlib.ExitStack() as stack:
            batch = Batch(self._writing, lease, stack)
            yield batch
            batch.flush()

    def close(self) -> None:
        """Close the database; safe to repeat."""
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
    report: Callable[[str], None] = LOG.warning,
) -> Store:
    """Open a store; a missing SQLite file is created with all tables.

    ``keys`` is the key file. Its default is the credential of a service, a file beside the
    SQLite file, created on first use, or ``SERVER_KEYS``. Transactions wait for locks for
    ``lock_timeout_s``. ``report`` receives a sentence if a server is silent.

    :raises StoreError: the store cannot be used, or its tables have another revision;
        the message names the command to run.
    """
    database = open_database(url, clock=clock, lock_timeout_s=lock_timeout_s, report=report)
    try:
        check_revision(database)
    except BaseException:
        database.close()
        raise
    return Store(database, key_file(database, keys))


def open_database(
    url: str,
    *,
    clock: Clock,
    lock_timeout_s: float = 30.0,
    report: Callable[[str], None] = LOG.warning,
) -> Database:
    """Open a database of any revision; a missing SQLite file is created.

    :raises StoreError: the database cannot be used.
    """
    database = Database(url, clock=clock, lock_timeout_s=lock_timeout_s, report=report)
    if database.path and not database.path.exists():
        # Imported here, because Alembic is slow to import.
        from kiln.db.tables.upgrade import create_file

        create_file(database.path, clock)
    return database


def key_file(database: Database, path: str | os.PathLike[str] | None) -> KeyFile:
    """Return the keys of a database."""
    given = None if path else credential(CREDENTIAL)
    if given is None and database.path:
        return KeyFile(path or database.path.with_suffix('.keys'), make=True)
    # All hosts need the same keys, so none is created here.
    return KeyFile(path or given or SERVER_KEYS)


def check_revision(database: Database) -> None:
    """Raise unless the tables are those of this version.

    :raises StoreError: they are not; the message names the command to run.
    """
    found = revision_of(database)
    if found == REVISION:
        return
    where = f'Cannot use the store at {database.name}'
    if found is None:
        raise StoreError(
            f"{where}: it has no tables of kiln. Run 'kiln db upgrade' to create them."
        )
    if found < REVISION:
        raise StoreError(
            f'{where}: it has revision {found}, and this version of kiln needs {REVISION}. Stop '
            f"all processes of kiln, make a backup, and run 'kiln db upgrade'."
        )
    raise StoreError(
        f'{where}: it has revision {found} of a later version of kiln, and this version needs '
        f"{REVISION}. Install the later version; 'kiln db check' shows the details."
    )
