"""Base of store tests, with a SQLite store per test; other databases reuse the tests."""

import functools
import pathlib
import shutil
import tempfile
import unittest

import sqlalchemy as sa

from kiln.clock import SYSTEM_CLOCK
from kiln.db.store import open_store
from kiln.db.tables.upgrade import create_file
from kiln.testing.clock import VirtualClock
from tests.unit.db import samples

TERM_S = 30.0


@functools.cache
def new_file():
    """Return a file with empty tables, created once for all tests."""
    folder = tempfile.TemporaryDirectory(prefix='kiln-store-')
    path = pathlib.Path(folder.name, 'kiln.db')
    create_file(path, SYSTEM_CLOCK)
    # The folder is removed with the path object.
    return path, folder


def open_new_store(url, **more):
    """Open a store on SQLite; if its file is missing, copy an empty one.

    Creating the tables takes longer than most tests.
    """
    path = pathlib.Path(url.removeprefix('sqlite:///'))
    if not path.exists():
        shutil.copy(new_file()[0], path)
    return open_store(url, **more)


def take_over(store, scope, owner, term_s=TERM_S):
    """Take a lease from its owner, as after its expiry."""
    lease = None
    # Another thread of this process can claim the released lease first.
    while lease is None:
        held = store.leases.get(scope)
        if held is not None:
            store.leases.release(held)
        lease = store.leases.claim(scope, owner, term_s)
    return lease


class StoreCase(unittest.TestCase):
    """Has ``store`` with ``web``, a cluster without an engine."""

    def setUp(self):
        self.clock = self.open_clock()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.url = self.make_url()
        self.store = self.open()

    def open_clock(self):
        return VirtualClock()

    def make_url(self):
        path = self.folder / 'kiln.db'
        shutil.copy(new_file()[0], path)
        return f'sqlite:///{path}'

    def open(self, **more):
        store = open_store(self.url, clock=self.clock, keys=self.folder / 'kiln.keys', **more)
        self.addCleanup(store.close)
        return store

    def pass_time(self, seconds):
        self.clock.advance(seconds)

    def create(self, name='web', **more):
        cluster = samples.cluster(name, **more)
        op_id = f'op-{cluster.id.removeprefix("c-")}'
        self.store.clusters.create(cluster, samples.operation(op_id, cluster.id))
        return cluster

    def claim(self, scope='c-web', owner='me', term_s=TERM_S):
        lease = self.store.leases.claim(scope, owner, term_s)
        self.assertIsNotNone(lease)
        return lease

    def write(self, lease, **changes):
        """Write the given values by methods of a batch: node=..., steps=[...]."""
        with self.store.writing(lease) as batch:
            for name, values in changes.items():
                for value in values if isinstance(values, list) else [values]:
                    getattr(batch, name)(value)

    def rows(self, statement):
        """Query the database directly, without the store."""
        engine = sa.create_engine(self.database_url())
        try:
            with engine.connect() as connection:
                return [tuple(row) for row in connection.execute(sa.text(statement))]
        finally:
            engine.dispose()

    def change(self, statement, **values):
        """Change the database directly, as someone with access to it can."""
        engine = sa.create_engine(self.database_url())
        try:
            with engine.begin() as connection:
                connection.execute(sa.text(statement), values)
        finally:
            engine.dispose()

    def database_url(self):
        return self.url


class ClusterCase(StoreCase):
    """A store with the cluster ``web``, its operation ``op-web`` and its ``lease``."""

    def setUp(self):
        super().setUp()
        self.web = self.create()
        self.lease = self.claim()
