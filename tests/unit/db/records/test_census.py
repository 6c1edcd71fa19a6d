"""A census counts the records of a store by their states."""

from kiln.clusters.exceptions import StoreError
from kiln.clusters.models import NodeState, OperationKind, OperationState
from kiln.clusters.spec import ClusterSpec, NodeGroupSpec, Shape
from kiln.clusters.status import ClusterStatus
from kiln.db.tables.schema import REVISION
from tests.unit.db import samples
from tests.unit.db.case import StoreCase


def spec(name, count):
    group = NodeGroupSpec(name='work', shape=Shape(count=count))
    return ClusterSpec(name=name, groups=(group,))


class CensusOfAStore(StoreCase):
    def setUp(self):
        super().setUp()
        for name in ('web', 'shop', 'blog'):
            self.create(name, spec=spec(name, 2))

    def settle(self, name, state=OperationState.SUCCEEDED, *, ready=2):
        lease = self.claim(f'c-{name}', f'o-{name}')
        nodes = [
            samples.node(f'{name}-{number}', f'c-{name}', state=NodeState.READY)
            for number in range(ready)
        ]
        ended = samples.operation(f'op-{name}', f'c-{name}', state=state)
        self.write(lease, node=nodes, operation=ended)
        return lease

    def test_new_clusters_are_queued_work(self):
        census = self.store.censuses.take()
        self.assertEqual({ClusterStatus.QUEUED: 3}, census.clusters)
        self.assertEqual({(OperationKind.CREATE, OperationState.QUEUED): 3}, census.operations)
        self.assertEqual((3, 0, 0), (census.work_waiting, census.leases_held, len(census.nodes)))

    def test_clusters_are_counted_by_status(self):
        self.settle('web')
        self.settle('shop', ready=1)
        self.settle('blog', OperationState.FAILED)
        expected = {ClusterStatus.READY: 1, ClusterStatus.DEGRADED: 1, ClusterStatus.FAILED: 1}
        self.assertEqual(expected, self.store.censuses.take().clusters)

    def test_a_paused_cluster_is_no_work(self):
        self.store.clusters.pause('c-web')
        census = self.store.censuses.take()
        self.assertEqual({ClusterStatus.PAUSED: 1, ClusterStatus.QUEUED: 2}, census.clusters)
        self.assertEqual(2, census.work_waiting)

    def test_another_number_of_nodes_is_noticed_in_the_next_generation(self):
        self.settle('web')
        self.assertEqual(1, self.store.censuses.take().clusters[ClusterStatus.READY])
        self.store.clusters.change(
            'c-web', spec('web', 3), generation=1, operation=samples.operation('op-2')
        )
        self.change("UPDATE operation SET state = 'succeeded' WHERE id = 'op-2'")
        self.assertEqual(1, self.store.censuses.take().clusters[ClusterStatus.DEGRADED])

    def test_nodes_are_counted_by_state_without_those_that_are_gone(self):
        lease = self.settle('web')
        self.write(
            lease,
            node=[
                samples.node('n-8', state=NodeState.UNHEALTHY),
                samples.node('n-9', state=NodeState.GONE),
            ],
        )
        expected = {NodeState.READY: 2, NodeState.UNHEALTHY: 1}
        self.assertEqual(expected, self.store.censuses.take().nodes)

    def test_a_state_that_is_none_is_an_error_of_the_store(self):
        self.settle('web')
        for change in "node SET state = 'x'", "operation SET kind = 'x' WHERE id = 'op-shop'":
            self.change(f'UPDATE {change}')
            with self.subTest(change), self.assertRaisesRegex(StoreError, "'x' is not a valid"):
                self.store.censuses.take()
            self.change("UPDATE node SET state = 'ready'")
        self.change("UPDATE node SET state = 'x'")
        with self.assertRaisesRegex(StoreError, "Cannot read row c-web in the store: 'x' is"):
            self.store.nodes.counts()

    def test_leases_are_held_or_expired_or_released(self):
        self.claim('c-web')
        self.claim('c-shop', 'dead', term_s=1.0)
        self.store.leases.release(self.claim('c-blog'), unsettled=True)
        self.pass_time(2.0)
        census = self.store.censuses.take()
        self.assertEqual((1, 1), (census.leases_held, census.leases_expired))
        self.assertEqual(2, census.work_waiting)

    def test_the_revision_and_the_size_are_those_of_the_database(self):
        census = self.store.censuses.take()
        self.assertEqual(REVISION, census.revision)
        self.assertGreater(census.size_bytes, 10_000)
