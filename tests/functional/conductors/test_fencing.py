"""Fencing of a conductor that is paused at work and resumes after a takeover.

KILN_PAUSES is the number of pauses on each database.
"""

import itertools
import os
import pathlib
import random
import sqlite3
import tempfile
import time
import unittest

from kiln.clusters.models import NodeState
from tests.functional.conductors.site import SharedSite
from tests.functional.db.case import OnServer
from tests.functional.db.servers import PostgresServer, shared

PAUSES = int(os.environ.get('KILN_PAUSES', '2'))
SEED = int(os.environ.get('KILN_PAUSE_SEED', '5'))
NODES = 8
#: Calls time out while their process is stopped, which is when guards clean up.
CALL_TIMEOUT_S = 1.0
#: Slow enough that requests are in flight at any time.
ACCEPT_S = 0.2


def setUpModule():
    OnPostgres.server = shared(PostgresServer)


class Fencing:
    """Tests that run on each database."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.dice = random.Random(SEED)
        self.site = SharedSite(
            self, self.folder, store_url=self.make_url(), keys=self.folder / 'kiln.keys',
            more=(CALL_TIMEOUT_S, ACCEPT_S),
        )  # fmt: skip

    def test_an_owner_that_wakes_late_writes_and_starts_nothing(self):
        sleeper = self.site.start()
        for number in range(PAUSES):
            cluster = self._overtaken(sleeper, f'web{number}')
            self._let_go_of(sleeper, cluster)

    def _overtaken(self, sleeper, name):
        """Stop the owner while it creates a cluster, and let another conductor finish it."""
        site = self.site
        cluster, operation = self._stopped(sleeper, name)
        former = site.store.leases.get(cluster.id)
        other = site.start()
        site.succeeded(operation)
        self.assertGreater(site.store.leases.get(cluster.id).epoch, former.epoch)
        # Gone before the other wakes, so that the sleeper makes every later change.
        self.assertEqual(0, other.end())
        site.members.remove(other)
        return cluster

    def _stopped(self, sleeper, name):
        """Stop the owner while it creates a cluster; try another cluster if it was faster."""
        site = self.site
        for attempt in itertools.count():
            cluster, operation = site.create(f'{name}-{attempt}', NODES)
            site.until(lambda of=cluster: site.nodes(of))
            time.sleep(self.dice.uniform(0.0, 0.2))
            self._pause(sleeper)
            if not site.store.operations.get(operation.id).state.ended:
                return cluster, operation
            sleeper.resume()
            site.succeeded(site.delete(cluster))
        raise AssertionError

    def _let_go_of(self, sleeper, cluster):
        site = self.site
        nodes, machines = site.nodes(cluster), site.machines()
        lease = site.store.leases.get(cluster.id)
        events = tuple(site.store.events.after(0, cluster_id=cluster.id))
        sleeper.resume()
        # An owner stopped in a transaction finds its session ended, so that others can continue.
        told = (f'Cannot write to {cluster.id}', f'Work on cluster {cluster.id} failed')
        site.until(lambda: any(one in site.said() for one in told), 'it was not told')
        time.sleep(2.0)
        self.assertEqual(nodes, site.nodes(cluster))
        self.assertEqual(machines.keys(), site.machines().keys())
        self.assertEqual(lease, site.store.leases.get(cluster.id))
        self.assertEqual(events, tuple(site.store.events.after(0, cluster_id=cluster.id)))
        self.assertEqual({NodeState.READY}, {node.state for node in nodes})
        self.assertEqual(NODES, len(nodes))
        # The resumed conductor still works on its own clusters.
        site.succeeded(site.delete(cluster))
        self.assertEqual({}, site.machines())

    def _pause(self, member):
        """Pause a member at a moment when it holds no file lock, which would block others."""
        while True:
            member.pause()
            if all(map(_is_free, self.folder.glob('*.db'))):
                return
            member.resume()
            time.sleep(0.01)


def _is_free(path):
    connection = sqlite3.connect(path, timeout=0.2, isolation_level=None)
    try:
        connection.execute('BEGIN IMMEDIATE')
        connection.execute('ROLLBACK')
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True


class OnSqlite(Fencing, unittest.TestCase):
    def make_url(self):
        return f'sqlite:///{self.folder}/kiln.db'


class OnPostgres(Fencing, OnServer, unittest.TestCase):
    pass
