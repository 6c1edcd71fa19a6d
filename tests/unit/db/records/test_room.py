"""Tests of limits of nodes: checked in the transaction that needs room for more of them."""

import threading

from kiln.clusters.exceptions import ClusterChanged, TooManyNodes
from kiln.clusters.limits import NodeLimits
from kiln.clusters.models import Aim, OperationKind, OperationState
from kiln.clusters.spec import ClusterSpec, NodeGroupSpec, Shape
from kiln.db.records.room import Room
from tests.unit.db import samples
from tests.unit.db.case import StoreCase

LIMITS = NodeLimits(max_nodes_per_cluster=10, max_nodes_per_owner=20, max_nodes_per_site=30)


def spec(name, count, owner=None):
    group = NodeGroupSpec(name='work', shape=Shape(count=count))
    return ClusterSpec(name=name, groups=(group,), credentials=owner)


class RoomForNodes(StoreCase):
    def add(self, name, count, owner=None, *, limits=LIMITS, store=None):
        cluster = samples.cluster(name, spec=spec(name, count, owner))
        operation = samples.operation(f'op-{name}', cluster.id)
        (store or self.store).clusters.create(cluster, operation, limits=limits)
        return cluster

    def change(self, name, count, owner=None, *, kind=OperationKind.RESIZE, **args):
        """Change a cluster once its open operation has ended."""
        there = self.store.clusters.get(name)
        operation = samples.operation(f'op-{there.generation + 1}-{name}', there.id, kind,
                                      args=args)  # fmt: skip
        return self.store.clusters.change(
            there.id, spec(name, count, owner), generation=there.generation, operation=operation,
            limits=LIMITS,
        )  # fmt: skip

    def end(self, cluster, left, state=OperationState.SUCCEEDED):
        """End the open operation of a cluster as its engine does, with nodes that are left."""
        there = self.store.clusters.get(cluster.id)
        (operation,) = self.store.operations.open(cluster.id)
        lease = self.claim(cluster.id)
        with self.store.writing(lease) as batch:
            batch.operation(samples.operation(operation.id, cluster.id, state=state))
            batch.give_back_room(there.generation, left)
        self.store.leases.release(lease)

    def refused(self, option, function, *args, **more):
        with self.assertRaises(TooManyNodes) as caught:
            function(*args, **more)
        self.assertEqual(option, caught.exception.option)
        return caught.exception

    def room(self):
        return dict(self.rows('SELECT name, nodes FROM cluster'))

    def test_each_limit_refuses_one_node_more_and_names_option_and_count(self):
        self.add('a', 10)
        error = self.refused('max_nodes_per_cluster', self.add, 'b', 11)
        self.assertEqual((11, 10), (error.count, error.most))
        self.assertEqual(
            "Cannot have 11 nodes in cluster 'b': it would have 11, and [clusters] "
            'max_nodes_per_cluster allows 10.', str(error),
        )  # fmt: skip
        self.add('b', 9)
        error = self.refused('max_nodes_per_owner', self.add, 'c', 2)
        self.assertIn('all clusters without credentials would have 21', str(error))
        self.add('c', 10, 'team')
        error = self.refused('max_nodes_per_site', self.add, 'd', 2, 'other')
        self.assertIn('all clusters of this site would have 31', str(error))
        self.add('d', 1, 'other')
        self.assertEqual(['a', 'b', 'c', 'd'], [one.name for one in self.store.clusters.list()])

    def test_a_refused_cluster_or_operation_is_not_written(self):
        web = self.add('web', 2)
        self.end(web, 2)
        self.refused('max_nodes_per_cluster', self.add, 'b', 11)
        self.refused('max_nodes_per_cluster', self.change, 'web', 11)
        self.assertEqual(1, len(self.store.clusters.list()))
        self.assertEqual((), self.store.operations.open(web.id))
        self.assertEqual((1, 2), (self.store.clusters.get('web').generation, self.room()['web']))

    def test_clusters_without_credentials_belong_to_the_owner_of_the_site(self):
        limits = NodeLimits(max_nodes_per_owner=5, site_owner='team')
        self.add('a', 3)
        error = self.refused('max_nodes_per_owner', self.add, 'b', 3, 'team', limits=limits)
        self.assertIn('all clusters of team would have 6', str(error))
        self.add('b', 3, 'other', limits=limits)

    def test_a_cluster_that_does_not_grow_is_changed_whatever_the_limits(self):
        self.end(self.add('web', 40, limits=None), 40)
        self.end(self.change('web', 40), 40)
        self.end(self.change('web', 12), 12)
        self.refused('max_nodes_per_cluster', self.change, 'web', 13)

    def test_a_cluster_moves_only_to_an_owner_with_room(self):
        self.end(self.add('a', 9), 9)
        self.end(self.add('b', 10, 'other'), 10)
        self.end(self.add('c', 2, 'other'), 2)
        self.refused('max_nodes_per_owner', self.change, 'a', 9, 'other')
        self.end(self.change('a', 8), 8)
        self.end(self.change('a', 8, 'other'), 8)

    def test_a_shrinking_cluster_gives_its_room_back_once_its_nodes_are_gone(self):
        web = self.add('web', 10)
        self.end(web, 10)
        self.change('web', 2)
        self.assertEqual(10, self.room()['web'])
        # It was cancelled half-way.
        self.end(web, 7, OperationState.CANCELLED)
        self.assertEqual(7, self.room()['web'])
        self.change('web', 2)
        self.end(web, 2)
        self.assertEqual(2, self.room()['web'])

    def test_an_operation_that_can_roll_back_keeps_the_room_for_it(self):
        web = self.add('web', 10)
        self.end(web, 10)
        lease = self.claim(web.id)
        former = Aim(spec=web.spec, pin=web.pin)
        self.write(lease, cluster=samples.cluster('web', spec=web.spec, former=former))
        self.store.leases.release(lease)
        self.change('web', 2)
        self.end(web, 2, OperationState.FAILED)
        self.assertEqual(2, self.room()['web'])
        self.add('b', 10)
        self.add('c', 8)
        # It could lead back to the ten nodes of its last success.
        self.refused('max_nodes_per_owner', self.change, 'web', 2, rollback=True)
        self.change('web', 2)

    def test_a_retry_and_an_adoption_need_room(self):
        web = self.add('web', 9)
        self.end(web, 9)
        adopt = samples.operation('op-2', web.id, OperationKind.ADOPT)
        there = self.store.clusters.get('web')
        tight = NodeLimits(max_nodes_per_cluster=9)
        room = Room.for_operation(tight, there, adopt)
        self.refused('max_nodes_per_cluster', self.store.operations.submit, adopt, room=room)
        self.assertEqual((), self.store.operations.open(web.id))
        self.store.operations.submit(adopt, room=Room.for_operation(LIMITS, there, adopt))
        self.assertEqual(10, self.room()['web'])
        self.end(web, 9, OperationState.FAILED)
        self.refused(
            'max_nodes_per_cluster', self.store.operations.reopen, 'op-2', deadline_at=9.0,
            room=room,
        )  # fmt: skip
        self.assertIs(OperationState.FAILED, self.store.operations.get('op-2').state)

    def test_room_is_given_back_only_for_the_generation_that_the_engine_knows(self):
        web = self.add('web', 3)
        with self.store.writing(self.claim(web.id)) as batch:
            batch.give_back_room(2, 0)
        self.assertEqual(3, self.room()['web'])

    def test_a_change_for_another_generation_is_told_so(self):
        self.end(self.add('web', 3), 3)
        with self.assertRaises(ClusterChanged):
            self.store.clusters.change(
                'c-web', spec('web', 4), generation=7, limits=LIMITS,
                operation=samples.operation('op-2', kind=OperationKind.RESIZE),
            )  # fmt: skip
        self.assertEqual(3, self.room()['web'])

    def test_callers_at_the_same_time_never_exceed_a_limit_together(self):
        stores, refused = [self.open() for _ in range(4)], []
        gate = threading.Barrier(4)

        def create(number):
            gate.wait()
            try:
                self.add(f'c{number}', 7, store=stores[number])
            except TooManyNodes as exc:
                refused.append(exc.option)

        threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(['max_nodes_per_owner'] * 2, refused)
        self.assertEqual([7, 7], list(self.room().values()))
