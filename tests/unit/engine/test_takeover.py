"""A new owner of a cluster continues from the store, and from nothing else."""

import dataclasses
import re
import subprocess
import sys

from kiln.cluster_drivers.values import READY
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import NodeState, OperationKind, OperationState, Step
from kiln.clusters.spec import MachineSpec
from kiln.engine.plan.names import build_key
from tests.unit.db.case import take_over
from tests.unit.engine.site import SETTINGS, Plain, Site, group


class LeftBehind(Site):
    """A cluster of two nodes as its former owner left it."""

    settings = dataclasses.replace(SETTINGS, quiesce_s=0.3)

    def leave(self, state, **changes):
        """Write one of two ready nodes in another state; return it and the cluster."""
        cluster = self.created(group(2))
        self.conductor.close()
        node = dataclasses.replace(self.nodes(cluster)[0], state=state, **changes)
        self.write(cluster, node=node)
        return node, cluster

    def write(self, cluster, **what):
        lease = take_over(self.store, cluster.id, 'somebody', 0.01)
        with self.store.writing(lease) as batch:
            for kind, value in what.items():
                getattr(batch, kind)(value)
        self.clock.sleep(0.02)

    def take_over_and(self, cluster, kind=OperationKind.REPLACE):
        self.take_over()
        self.succeeded(self.submit(cluster, kind))

    def test_a_node_of_unknown_state_is_polled_until_it_is_known(self):
        node, cluster = self.leave(NodeState.UNKNOWN)
        self.fault('status:refuse:times=2')
        self.take_over_and(cluster)
        self.assert_whole(cluster, 2)
        self.assertIn(node.id, {one.id for one in self.nodes(cluster)})

    def test_a_node_that_turns_out_to_be_gone_is_built_again(self):
        node, cluster = self.leave(NodeState.UNKNOWN)
        self.parts.backends.get(None).delete(node.compute_id, wait=True).result(120)
        self.take_over_and(cluster)
        self.assert_whole(cluster, 2)
        self.assertNotIn(node.id, {one.id for one in self.nodes(cluster)})

    def test_a_build_that_was_sent_is_found_by_its_key_and_removed(self):
        _, cluster = self.leave(NodeState.BUILDING, doomed='asked for', attempt=2, compute_id=None)
        node = next(one for one in self.nodes(cluster) if one.doomed)
        sent = self.parts.backends.get(None).build(name='late', build_key=build_key(node))
        sent.result(120)
        self.take_over_and(cluster)
        self.assertNotIn(sent.result(), self.machines())

    def test_a_build_that_never_arrived_is_absent_after_the_second_poll(self):
        node, cluster = self.leave(
            NodeState.BUILDING, doomed='asked for', attempt=2, compute_id=None
        )
        self.take_over_and(cluster)
        there = {one.id: one for one in self.nodes(cluster, gone=True)}
        self.assertIs(NodeState.GONE, there[node.id].state)

    def test_a_repeat_that_is_refused_does_not_hide_what_the_first_request_made(self):
        for fault in 'capacity', 'quota', 'conflict':
            with self.subTest(fault):
                cluster, sent, operation = self.left_building([group(1)], f'build:{fault}:times=1')
                self.succeeded(operation)
                self.assert_whole(cluster, 1)
                self.assertIn(sent, self.machines())
                self.succeeded(self.submit(cluster, OperationKind.DELETE))

    def test_a_repeat_that_is_refused_is_sent_again_if_the_first_made_nothing(self):
        node, cluster = self.leave(NodeState.BUILDING, compute_id=None)
        former = self.parts.backends.get(None).find_build(build_key(node)).result(120)
        self.parts.backends.get(None).delete(former.id, wait=True).result(120)
        self.write(cluster, node=dataclasses.replace(node, attempt=2))
        self.fault('build:capacity:times=2')
        self.take_over_and(cluster)
        self.assert_whole(cluster, 2)
        self.assertEqual(3, self.store.nodes.get(cluster.id, node.id).attempt)

    def test_a_node_that_goes_leaves_nothing_of_a_build_whose_repeat_was_refused(self):
        # Nobody finds out before it is to go.
        self.fault('find_build:refuse:times=3')
        cluster, _, operation = self.left_building([group(1)], 'build:capacity:times=1')
        self.until(lambda: any(one.cause for one in self.nodes(cluster)))
        self.store.operations.cancel(operation.id)
        self.conductor.wake()
        self.ended(operation)
        self.succeeded(self.change(cluster, group(0)))
        self.assertEqual({}, self.machines())

    def left_building(self, groups, fault=None):
        """Send a node's first build without recording its response; return the rest.

        A fault is what another conductor meets first.
        """
        cluster = self.created(group(1), name=re.sub('[^a-z]', '-', f'for-{fault}'))
        self.conductor.close()
        (node,) = self.nodes(cluster)
        sent, machine = node.compute_id, self.machines()[node.compute_id]
        self.assertEqual((build_key(node), None), (machine.build_key, machine.image_id))
        unanswered = {'state': NodeState.BUILDING, 'compute_id': None, 'address': None}
        self.write(cluster, node=dataclasses.replace(node, **unanswered))
        operation = self.change(cluster, *groups)
        if fault is not None:
            self.fault(fault)
        self.take_over()
        return cluster, sent, operation

    def test_a_build_sent_before_an_upgrade_is_adopted_and_then_replaced(self):
        new = group(1, machine=MachineSpec(image='new'))
        cluster, sent, operation = self.left_building([new])
        self.succeeded(operation)
        self.assert_whole(cluster, 1)
        self.assertNotIn(sent, self.machines())
        self.assertEqual(['new'], [one.image_id for one in self.machines().values()])
        self.assertIn(sent, {one.compute_id for one in self.nodes(cluster, gone=True)})

    def test_a_build_sent_before_a_resize_is_adopted_as_it_is(self):
        cluster, sent, operation = self.left_building([group(3)])
        self.succeeded(operation)
        self.assert_whole(cluster, 3)
        self.assertIn(sent, self.machines())

    def test_a_build_sent_with_another_flavor_leaves_no_machine_behind(self):
        small = group(2, machine=MachineSpec(flavor='small'))
        cluster, _, operation = self.left_building([small])
        self.succeeded(operation)
        self.assert_whole(cluster, 2)

    def test_a_request_in_flight_can_arrive_before_it_is_repeated(self):
        cluster = self.created(group(1))
        self.conductor.close()
        operation = self.operation(cluster.id, OperationKind.REPLACE)
        self.store.operations.submit(operation)
        step = Step(
            id='s', operation_id=operation.id, cluster_id=cluster.id, kind='build',
            started_at=self.clock.time(),
        )  # fmt: skip
        self.write(cluster, step=step)
        began = self.clock.monotonic()
        self.take_over()
        self.succeeded(operation)
        self.assertGreaterEqual(round(self.clock.monotonic() - began, 6), self.settings.quiesce_s)

    def test_an_owner_that_lost_its_lease_writes_nothing_more(self):
        self.fault('build:hang:seconds=0.3')
        cluster, operation = self.create(group(2))
        self.until(lambda: self.states(cluster)[NodeState.BUILDING] == 2)
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            take_over(self.store, cluster.id, 'another', 60)
            before = self.nodes(cluster)
            self.until(lambda: len(self.machines()) == 2 and logs.output)
        self.assertEqual(before, self.nodes(cluster))
        self.assertIn('another owner holds it now', logs.output[0])
        self.assertFalse(self.store.operations.get(operation.id).state.ended)


class LeasesOfTheDead(Site):
    def held(self, owner):
        """Return an operation on a cluster whose lease an owner has for an hour."""
        cluster = self.created(group(1))
        self.conductor.close()
        take_over(self.store, cluster.id, owner, 3600.0)
        operation = self.operation(cluster.id, OperationKind.REPLACE)
        self.store.operations.submit(operation)
        self.take_over()
        return operation

    def test_a_cluster_whose_owner_died_on_this_host_is_taken_over_at_once(self):
        program = 'from kiln.engine.owners import new_owner; print(new_owner())'
        done = subprocess.run(
            [sys.executable, '-c', program], capture_output=True, text=True, check=True
        )
        with self.assertLogs('kiln.engine', 'INFO') as logs:
            self.succeeded(self.held(done.stdout.strip()))
        self.assertTrue(any('has died: its lease' in line for line in logs.output))

    def test_a_lease_that_a_clock_which_was_set_back_has_made_long_ends_after_its_term(self):
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            self.succeeded(self.held('another-host.7.x'))
        self.assertIn('The clock was set back: shortened 1 leases', logs.output[0])


class Renewal(Site):
    # Long enough that a busy machine does not lose it.
    settings = dataclasses.replace(SETTINGS, lease_s=3.0)

    def test_a_lease_lasts_as_long_as_its_owner_works(self):
        self.fault('build:hang:seconds=4')
        cluster, operation = self.create(group(1))
        self.until(lambda: self.states(cluster)[NodeState.BUILDING])
        lease = self.store.leases.get(cluster.id)
        self.until(lambda: self.clock.time() > lease.expires_at)
        self.assertIsNone(self.store.leases.claim(cluster.id, 'another', 1))
        self.succeeded(operation)
        self.assertEqual(lease.epoch, self.store.leases.get(cluster.id).epoch)

    def test_a_lease_that_was_lost_is_dropped(self):
        self.fault('build:quota')
        cluster, _ = self.create(group(1))
        self.until(lambda: NodeState.PLANNED in self.states(cluster))
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            take_over(self.store, cluster.id, 'another', 60)
            self.until(lambda: logs.output)


class Refusing(Plain):
    """Has nothing to send, then a defect, and cannot report the state of a node."""

    def __init__(self):
        self.left = [ClusterDriverError('No token yet.', retryable=True)]
        self.looks = [ValueError('a defect')]

    def bootstrap(self, context, cluster, node):
        if self.left:
            raise self.left.pop()
        return super().bootstrap(context, cluster, node)

    def is_ready(self, context, cluster, node):
        if self.looks:
            raise self.looks.pop()
        return READY


class DriverErrors(Site):
    def setUp(self):
        self.driver = Refusing()
        super().setUp()

    def test_an_error_of_a_driver_affects_only_its_node(self):
        cluster = self.created(group(2))
        self.assert_whole(cluster, 2)
        told = [event.message for event in self.store.events.after(0, cluster_id=cluster.id)]
        self.assertTrue(any('No token yet.' in message for message in told))
        self.assertTrue(any('a defect' in message for message in told))


class Emptiness(Site):
    def test_a_cluster_that_never_had_a_node_can_be_deleted(self):
        cluster = self.created(group(0))
        self.ended(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual([], list(self.store.clusters.list()))

    def test_a_backend_that_cannot_be_reached_is_not_proven_empty(self):
        cluster = self.created(group(1))
        victim = self.nodes(cluster)[0].id
        self.succeeded(self.change(cluster, group(0), doomed=[victim]))
        compute = self.parts.backends.get(None)
        compute.open_circuit('read')
        with self.assertLogs('kiln.engine.cluster.deletion_proof', 'WARNING'):
            operation = self.submit(cluster, OperationKind.DELETE)
            self.clock.sleep(0.3)
        self.assertFalse(self.store.operations.get(operation.id).state.ended)
        compute.close_circuit('read')
        self.assertIs(OperationState.SUCCEEDED, self.ended(operation).state)
