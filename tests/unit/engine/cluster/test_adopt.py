"""Adoption: a machine of the site becomes a node, and its group grows by one."""

import unittest

from kiln.clusters.models import NodeState, OperationKind, OperationState
from kiln.clusters.placing.counts import table
from kiln.clusters.spec import Place, Shape, ZoneRule, Zones
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.engine.cluster.adopt import grown, place_of, unfit
from kiln.models import Amphora, State
from tests.unit.engine.groups import counted
from tests.unit.engine.site import STACK, Site, group


class Adopting(Site):
    def machine(self, **more):
        """Return the id of a machine that is not recorded."""
        return self.parts.backends.get(None).build(**{'name': 'stray'} | more).result(120)

    def adopt(self, cluster, compute_id, **more):
        given = {'group': 'work', 'compute_id': compute_id} | more
        return self.submit(cluster, OperationKind.ADOPT, **given)

    def refused(self, operation, words):
        ended = self.ended(operation)
        self.assertEqual((OperationState.FAILED, 'not_adopted'), (ended.state, ended.cause.code))
        self.assertIn(words, ended.cause.message)

    def test_an_adopted_machine_is_a_node_like_the_others(self):
        cluster = self.created(group(2))
        stray = self.machine()
        self.succeeded(self.adopt(cluster, stray, node='n-adopted'))
        self.assert_whole(cluster, 3)
        node = self.store.nodes.get(cluster.id, 'n-adopted')
        self.assertEqual(('stray', stray, ''), (node.name, node.compute_id, node.made_with))
        self.assertIsNotNone(node.address)
        there = self.store.clusters.get(cluster.id)
        self.assertEqual((3, 2), (there.spec.group('work').shape.count, there.generation))
        self.assertEqual(there.aim, there.former)

    def test_no_node_is_removed_for_it_and_it_is_deleted_with_the_cluster(self):
        cluster = self.created(group(2))
        before = {node.id for node in self.nodes(cluster)}
        self.succeeded(self.adopt(cluster, self.machine()))
        self.succeeded(self.submit(cluster, OperationKind.REPLACE))
        self.assertLess(before, {node.id for node in self.nodes(cluster)})
        self.ended(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual({}, self.machines())
        self.assertEqual(3, len(self.store.receipts.get(cluster.id).holdings))

    def test_a_node_of_another_cluster_is_not_adopted(self):
        cluster, other = self.created(group(1)), self.created(group(1), name='other')
        taken = self.nodes(other)[0].compute_id
        self.refused(self.adopt(cluster, taken), 'is already a node of a cluster')
        self.assertEqual(1, self.store.clusters.get(cluster.id).generation)
        self.assertEqual({NodeState.READY: 1}, self.states(cluster))

    def test_a_node_of_the_cluster_is_not_adopted_twice(self):
        cluster = self.created(group(2))
        self.succeeded(self.adopt(cluster, self.nodes(cluster)[0].compute_id))
        self.assert_whole(cluster, 2)

    def test_a_machine_that_the_backend_does_not_have_is_refused(self):
        cluster = self.created(group(1))
        ended = self.ended(self.adopt(cluster, 'nobody'))
        self.assertEqual('instance_not_found', ended.cause.code)

    def test_a_full_or_missing_group_adopts_nothing(self):
        cluster = self.created(group(2, max_count=2))
        stray = self.machine()
        self.refused(self.adopt(cluster, stray), 'more than its max_count of 2')
        self.refused(self.adopt(cluster, stray, group='none'), "has no group 'none'")
        self.assertEqual(3, len(self.machines()))

    def test_a_new_owner_reads_the_machine_again(self):
        cluster = self.created(group(1))
        stray = self.machine()
        self.fault('get:hang:seconds=0.3')
        operation = self.adopt(cluster, stray)
        self.until(lambda: self.store.operations.get(operation.id).started_at)
        self.take_over()
        self.succeeded(operation)
        self.assert_whole(cluster, 2)

    def test_a_machine_of_another_owner_is_refused(self):
        cluster = self.created(group(1))
        theirs = NoopDriver(cloud=self.cloud)
        theirs.owner = 'another'
        compute = Compute(theirs, settings=STACK)
        self.addCleanup(compute.close, 0.0)
        stray = compute.build(name='theirs').result(120)
        self.refused(self.adopt(cluster, stray), 'it belongs to another')


class Fitness(unittest.TestCase):
    def test_only_running_or_starting_machines_can_become_nodes(self):
        fit = {
            state
            for state in State
            if not unfit(Amphora(id='m', name='', state=state, owner='kiln'), 'kiln', ())
        }
        self.assertEqual({State.ACTIVE, State.BUILDING, State.PENDING}, fit)

    def test_a_machine_without_an_owner_is_refused(self):
        amphora = Amphora(id='m', name='', state=State.ACTIVE)
        self.assertIn('belongs to nobody', unfit(amphora, 'kiln', ()))

    def test_a_shape_grows_in_the_place_of_the_machine_and_adds_up(self):
        amphora = Amphora(
            id='m', name='', state=State.ACTIVE, flavor='large', availability_zone='az2'
        )
        spread = Zones(rule=ZoneRule.SPREAD)
        for shape, place in (
            (Shape(count=2), Place('small', None)),
            (Shape(count=2, zones=spread), Place('small', 'az2')),
            (Shape(count=2, flavors={'large': 1, 'small': 1}), Place('large', None)),
            (Shape(count=2, flavors={'small': 2}), Place('large', None)),
            (Shape(count=2, zones=counted(az1=2)), Place('small', 'az2')),
            (Shape(count=2, placements={Place('small', 'az1'): 2}), Place('large', 'az2')),
        ):
            with self.subTest(shape=shape):
                self.assertEqual(place, place_of(shape, amphora, 'small'))
                found = table(grown(shape, place), ('az1', 'az2'), flavor='small')
                self.assertEqual(3, sum(found.values()))
                self.assertLessEqual(1, found.get(place, 0))
