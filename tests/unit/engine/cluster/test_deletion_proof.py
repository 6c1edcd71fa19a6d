"""Strays are deleted only while the lease is held and the cluster is being deleted."""

import dataclasses
import math

from kiln.clusters.models import Lease, OperationKind
from kiln.engine.cluster.deletion_proof import DeletionProof
from kiln.engine.nodes.cluster_state import ClusterState
from tests.unit.engine.site import Site, group


class Strays(Site):
    def setUp(self):
        super().setUp()
        cluster = self.created(group(0))
        self.stray = self.parts.backends.get(None).build(name='stray').result(120)
        lease = Lease(scope=cluster.id, owner='tests', epoch=0, expires_at=0.0)
        self.state = ClusterState(self.parts, lease, self.driver, lambda result: None)
        self.proof = DeletionProof(self.state)

    def found(self, kind, **more):
        """Take in that a poll found the stray; return what is started after the commit."""
        cluster = self.state.tx.cluster
        operation = kind and dataclasses.replace(self.operation(cluster.id, kind), **more)
        self.state.tx.load(cluster, operation)
        self.proof.take((('noop', self.stray),), None)
        return self.state.tx.launches

    def test_a_machine_that_only_one_list_has_is_no_stray_as_the_list_can_be_old(self):
        self.assertEqual([], self.found(OperationKind.DELETE))
        self.proof.take((), None)
        self.assertEqual([], self.found(OperationKind.DELETE))
        self.assertLess(self.state.tx.monotonic, self.state.nodes.next_at, 'and polled for again')

    def test_a_stray_is_deleted_after_the_commit_that_proves_the_lease(self):
        self.found(OperationKind.DELETE)
        (launch,) = self.found(OperationKind.DELETE)
        self.assertEqual([self.stray], list(self.machines()))
        with self.assertLogs('kiln.engine.cluster.deletion_proof', 'WARNING'):
            launch()
        self.until(lambda: not self.machines())
        self.assertLess(self.state.tx.monotonic, self.state.nodes.next_at, 'and polled for again')

    def test_strays_of_a_cancelled_deletion_stay(self):
        for kind, more in (
            (None, {}),
            (OperationKind.UPDATE, {}),
            (OperationKind.DELETE, {'cancelled': True}),
        ):
            with self.subTest(kind, **more):
                self.assertEqual([], self.found(kind, **more))
                self.assertEqual(math.inf, self.state.nodes.next_at)

    def test_the_second_empty_poll_follows_after_a_pause(self):
        tx = self.state.tx
        tx.load(tx.cluster, self.operation(tx.cluster.id, OperationKind.DELETE))
        for _ in range(2):
            self.assertFalse(self.proof.complete)
            self.proof.poll_when_due({'noop'})
            self.assertEqual(1, len(tx.launches), 'one poll at a time')
            tx.launches.clear()
            self.proof.take((), None)
            self.proof.poll_when_due({'noop'})
            self.assertEqual([], tx.launches, 'not before the pause')
            tx.monotonic += self.parts.settings.settle_s
        self.assertTrue(self.proof.complete)
