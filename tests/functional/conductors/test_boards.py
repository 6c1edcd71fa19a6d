"""Three conductors on each real board, of which one is killed repeatedly.

KILN_CONDUCTORS=50x20/10 means 50 clusters of 20 nodes and a kill every 10 seconds.
"""

import os
import pathlib
import random
import tempfile
import threading
import time
import unittest

from tests.functional.conductors.boards import EtcdServer, RedisServer, ZookeeperServer
from tests.functional.conductors.site import SharedSite
from tests.functional.db.case import OnServer
from tests.functional.db.servers import PostgresServer, shared

SIZE, _, KILL_S = os.environ.get('KILN_CONDUCTORS', '3x3/1').partition('/')
CLUSTERS, NODES = map(int, SIZE.split('x'))
KILLS = int(os.environ.get('KILN_CONDUCTORS_KILLS', '2'))
SEED = int(os.environ.get('KILN_CONDUCTORS_SEED', '7'))


def setUpModule():
    KilledConductors.server = shared(PostgresServer)


class Deaths:
    """Kills one conductor after the other, each some seconds after the last was replaced.

    So conductors remain even on a machine where a start takes longer than that.
    """

    def __init__(self, site, every_s):
        self._site = site
        self._every_s = every_s
        self._over = threading.Event()
        self._dice = random.Random(SEED)
        self.count = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    @property
    def missing(self):
        """Return True while more kills are due; False if a member did not start."""
        return self.count < KILLS and self._thread.is_alive()

    def _run(self):
        while not self._over.wait(self._every_s):
            self._site.replace(self._dice.choice(self._site.members))
            self.count += 1


class KilledConductors(OnServer):
    """Tests that run on each board."""

    board = None

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.bulletin = shared(self.board)
        self.site = SharedSite(
            self, self.folder, store_url=self.make_url(), keys=self.folder / 'kiln.keys',
            where=f'{self.bulletin.url}/chaos',
        )  # fmt: skip

    def test_every_cluster_succeeds_whichever_conductor_is_killed(self):
        self.site.start(3)
        began = time.monotonic()
        lives = 0
        with Deaths(self.site, float(KILL_S)) as deaths:
            while deaths.missing:
                self._live(f'life{lives}')
                lives += 1
        self.assertGreaterEqual(deaths.count, KILLS, self.site.said())
        print(
            f'{self.bulletin.kind}: {lives} x {CLUSTERS} clusters of {NODES}, '
            f'{deaths.count} conductors killed, {time.monotonic() - began:.1f} s'
        )

    def _live(self, name):
        """Create, resize and delete all clusters."""
        site = self.site
        asked = [site.create(f'{name}-{number}', NODES) for number in range(CLUSTERS)]
        for _, operation in asked:
            site.succeeded(operation)
        clusters = [cluster for cluster, _ in asked]
        changes = [2 if number % 2 else -2 for number in range(CLUSTERS)]
        resized = [
            site.resize(cluster, NODES + change, self._victims(cluster, change))
            for cluster, change in zip(clusters, changes, strict=True)
        ]
        for operation in resized:
            site.succeeded(operation)
        site.assert_whole(
            [(cluster, NODES + change) for cluster, change in zip(clusters, changes, strict=True)]
        )
        for operation in [site.delete(cluster) for cluster in clusters]:
            site.succeeded(operation)
        self.assertEqual({}, site.machines())
        self.assertEqual((), tuple(site.store.clusters.list()))
        for cluster in clusters:
            receipt = site.store.receipts.get(cluster.id)
            self.assertTrue(all(one.gone_at for one in receipt.holdings))

    def _victims(self, cluster, change):
        """Return two nodes in the middle if the count decreases."""
        return [node.id for node in self.site.nodes(cluster)[1:3]] if change < 0 else []


class OnZookeeper(KilledConductors, unittest.TestCase):
    board = ZookeeperServer


class OnEtcd(KilledConductors, unittest.TestCase):
    board = EtcdServer


class OnRedis(KilledConductors, unittest.TestCase):
    board = RedisServer
