"""The values of a site's metrics: all states from 0, and no scrape that hangs."""

import contextlib
import itertools
import pathlib
import socket
import sqlite3
import threading
import unittest

from prometheus_client import CollectorRegistry, generate_latest

from kiln.clock import SYSTEM_CLOCK
from kiln.cluster_service.site_metrics import SharedCensus, SiteMetrics
from kiln.clusters.exceptions import StoreError
from kiln.clusters.models import NodeState, OperationKind, OperationState
from kiln.clusters.status import ClusterStatus
from kiln.db.database import Database
from kiln.db.keys import KeyFile
from kiln.db.store import Store
from kiln.engine.health.standing_check import SCOPE
from kiln.telemetry.prometheus_site import CONDUCTOR_FAMILIES, SITE_FAMILIES, exporting
from tests.unit.cluster_service.site import ConductedCase, SiteCase
from tests.unit.db.case import take_over


class SiteValues(ConductedCase):
    def setUp(self):
        super().setUp()
        self.census = SharedCensus(self.site.store, self.clock, keep_s=0.0)
        self.metrics = SiteMetrics(self.census, lambda: None)

    def values(self, name):
        return self.metrics.values()[name]

    def test_every_state_has_a_value_before_anything_is_in_it(self):
        for name, states in (
            ('kiln_clusters', ClusterStatus),
            ('kiln_nodes', set(NodeState) - {NodeState.GONE}),
        ):
            self.assertEqual({(str(one),): 0.0 for one in states}, self.values(name))
        under_way = [state for state in OperationState if not state.ended]
        expected = {
            (*map(str, pair),): 0.0 for pair in itertools.product(OperationKind, under_way)
        }
        self.assertEqual(expected, self.values('kiln_operations_open'))

    def test_a_created_cluster_and_its_nodes_are_ready(self):
        self.up()
        self.assertEqual(1.0, self.values('kiln_clusters')['ready',])
        self.assertEqual(5.0, self.values('kiln_nodes')['ready',])

    def test_every_value_belongs_to_a_metric_with_as_many_labels(self):
        with self.open_site().conducting() as conductor:
            take_over(self.site.store, SCOPE, 'nobody', term_s=0.001)
            self.clock.sleep(0.01)
            conductor.watch.poll()
        found = SiteMetrics(self.census, lambda: conductor).values()
        labels = {one.name: {len(one.labels)} for one in SITE_FAMILIES + CONDUCTOR_FAMILIES}
        self.assertEqual(labels, {name: set(map(len, found[name])) for name in found})


class DeadStores(unittest.TestCase):
    def setUp(self):
        listener = self.enterContext(socket.create_server(('127.0.0.1', 0)))
        # Connections are accepted by the kernel, and nobody ever answers.
        url = f'postgresql://kiln@127.0.0.1:{listener.getsockname()[1]}/kiln'
        database = Database(url, clock=SYSTEM_CLOCK)
        self.store = Store(database, KeyFile(pathlib.Path('no-keys')))
        self.addCleanup(self.store.close)
        self.listener = listener

    def test_a_store_that_never_answers_is_down_and_holds_up_no_scrape(self):
        census = SharedCensus(self.store, wait_s=0.05)
        registry = CollectorRegistry()
        with exporting(SiteMetrics(census, lambda: None).values, registry):
            shown = [generate_latest(registry).decode() for _ in range(3)]
        for text in shown:
            self.assertIn('kiln_store_up 0.0', text)
            self.assertNotIn('kiln_clusters', text)
        # One reading serves them all.
        busy = [one for one in threading.enumerate() if one.name == 'kiln-census']
        self.assertEqual(1, len(busy))
        with self.assertRaisesRegex(TimeoutError, r'The store has not answered for \d+ s\.'):
            census.take()
        # Which ends the connection, and the thread.
        self.listener.close()
        busy[0].join()
        with self.assertRaises(StoreError):
            census.take()


class BrokenStores(SiteCase):
    def test_a_store_without_a_table_is_down(self):
        metrics = SiteMetrics(SharedCensus(self.site.store), lambda: None)
        path = self.store_url.removeprefix('sqlite:///')
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute('DROP TABLE lease')
        self.assertEqual({'kiln_store_up': {(): 0.0}}, metrics.values())

    def test_scrapes_share_a_census_until_it_is_old(self):
        census = SharedCensus(self.site.store, self.clock, keep_s=5.0)
        first = census.take()
        self.assertIs(first, census.take())
        self.clock.sleep(5.0)
        self.assertIsNot(first, census.take())
