"""Strays are deleted only while the lease is held and the cluster is being deleted."""

import unittest

from kiln.clusters.models import Operation, OperationKind
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.engine.cluster.deletion_proof import DeletionProof
from kiln.engine.context import Backends
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.results import ActionResult
from tests.unit.engine.site import STACK


class Strays(unittest.TestCase):
    def setUp(self):
        self.cloud = NoopCloud()
        self.backends = Backends(
            lambda name: Compute(NoopDriver(cloud=self.cloud), settings=STACK), default='noop'
        )
        self.addCleanup(self.backends.close)
        self.stray = self.backends.get('noop').build(metadata={'cluster': 'c'}).result(120)
        self.sweep = DeletionProof('c', self.backends, lambda news: None)

    def learn(self, kind, **more):
        operation = None
        if kind is not None:
            operation = Operation(id='op', cluster_id='c', kind=kind, **more)
        tx = Transaction('c', operation, now=0.0, moment=0.0)
        again = self.sweep.learn(ActionResult('c', value=(('noop', self.stray),)), tx)
        return again, tx.launches

    def test_a_stray_is_deleted_after_the_commit_that_proves_the_lease(self):
        again, launches = self.learn(OperationKind.DELETE)
        self.assertTrue(again)
        self.assertEqual(1, self.cloud.count())
        with self.assertLogs('kiln.engine.cluster.deletion_proof', 'WARNING'):
            launches[0]()
        self.assertEqual(1, len(launches))

    def test_strays_of_a_cancelled_deletion_stay(self):
        for kind, more in (
            (None, {}),
            (OperationKind.UPDATE, {}),
            (OperationKind.DELETE, {'cancelled': True}),
        ):
            with self.subTest(kind, **more):
                self.assertEqual((False, []), self.learn(kind, **more))
