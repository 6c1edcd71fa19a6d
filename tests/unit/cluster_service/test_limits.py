"""Limits of nodes on every road by which nodes come, from the facade to the store."""

import contextlib

from kiln.cluster_service.requests import (
    Adopt,
    Check,
    Delete,
    Reboot,
    Replace,
    Resize,
    Upgrade,
)
from kiln.clusters.exceptions import InvalidCluster, TooManyNodes
from kiln.clusters.limits import NodeLimits
from kiln.clusters.models import OperationState
from kiln.clusters.spec import MachineSpec
from tests.unit.cluster_service.site import ConductedCase, declared

LIMITS = NodeLimits(max_nodes_per_cluster=6, max_nodes_per_owner=8, max_nodes_per_site=9)
#: How many nodes a hostile caller asks for.
HUGE = 2_000_000_000


def file(name, *counts):
    groups = ''.join(
        f'  - {{name: g{number}, count: {count}}}\n' for number, count in enumerate(counts)
    )
    return f'cluster: {name}\ncoe: nodes\nimage: debian-13\nnodegroups:\n{groups}'


class Usual(ConductedCase):
    def test_a_cluster_of_400_000_nodes_is_refused(self):
        """Finding M5: it was accepted, and kept the clusters of others waiting."""
        with self.assertRaises(TooManyNodes):
            self.apply(declared(file('huge', *[10_000] * 40)))


class Limited(ConductedCase):
    limits = LIMITS

    def refused(self, option, request):
        """Check that a request is refused before anything happens."""
        before = self.store_rows()
        with self.assertRaises(TooManyNodes) as caught:
            self.apply(request)
        self.assertEqual(option, caught.exception.option)
        self.assertIn(f'[clusters] {option} allows', str(caught.exception))
        self.assertEqual(before, self.store_rows())

    def store_rows(self):
        store = self.site.store
        return [(one, store.operations.of(one.id)) for one in store.clusters.list()]

    def created(self, name, *counts):
        self.succeeded(self.apply(declared(file(name, *counts))))
        return self.site.store.clusters.get(name)

    def succeeded(self, operation):
        self.assertIs(OperationState.SUCCEEDED, self.ended(operation).state)

    def test_a_declared_cluster_is_refused_by_the_sum_of_its_groups(self):
        self.refused('max_nodes_per_cluster', declared(file('web', 3, 4)))
        self.created('web', 3, 3)
        self.refused('max_nodes_per_cluster', declared(file('web', 3, 4)))

    def test_a_scaled_group_is_refused(self):
        self.created('web', 3, 3)
        self.refused('max_nodes_per_cluster', Resize(cluster='web', group='g0', count=4))

    def test_clusters_of_one_owner_share_the_room_of_the_owner(self):
        self.created('a', 6)
        self.created('b', 2)
        self.refused('max_nodes_per_owner', Resize(cluster='b', count=3))
        self.refused('max_nodes_per_owner', declared(file('c', 1)))
        self.succeeded(self.apply(Delete(cluster='a')))
        self.created('c', 6)

    def test_a_machine_is_not_adopted_beyond_the_limit(self):
        self.created('web', 6)
        machine = self.site.backends.get(None).build(image_id='debian-13').result()
        self.refused('max_nodes_per_cluster', Adopt(cluster='web', group='g0', amphora_id=machine))

    def test_operations_that_add_no_node_are_accepted_at_the_limit(self):
        self.created('web', 6)
        node = self.site.store.nodes.of(self.site.store.clusters.get('web').id)[0].name
        for request in (
            Replace(cluster='web', nodes=(node,)), Reboot(cluster='web'), Check(cluster='web'),
            Upgrade(cluster='web', machine=MachineSpec(image='debian-14')),
            Resize(cluster='web', count=5), Resize(cluster='web', count=6), Delete(cluster='web'),
        ):  # fmt: skip
            with self.subTest(request):
                self.succeeded(self.apply(request))

    def test_a_proposal_whose_room_was_taken_meanwhile_is_refused(self):
        proposals = [self.clusters.plan(declared(file(name, 5))) for name in 'ab']
        self.clusters.apply(proposals[0])
        with self.assertRaises(TooManyNodes):
            self.clusters.apply(proposals[1])
        self.assertEqual(['a'], [one.name for one in self.site.store.clusters.list()])


class Huge(ConductedCase):
    limits = NodeLimits(
        max_nodes_per_cluster=HUGE, max_nodes_per_owner=HUGE, max_nodes_per_site=HUGE
    )

    def test_huge_requests_are_refused_before_they_are_planned(self):
        self.ended(self.apply(declared(file('web', 1))))
        with self.assertRaisesRegex(InvalidCluster, 'more than the 10000 of the largest group'):
            self.clusters.plan(Resize(cluster='web', count=HUGE))
        self.clusters = self.limited().clusters
        with self.assertRaises(TooManyNodes):
            self.clusters.plan(declared(file('huge', *[10_000] * 200)))

    def limited(self):
        self.limits = LIMITS
        return self.enterContext(contextlib.closing(self.open_site()))
