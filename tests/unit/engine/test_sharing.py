"""Several conductors, with sources that are right, wrong or silent."""

import dataclasses
import threading

from kiln.clusters.exceptions import ClusterDriverUnknown, LeaseLost
from kiln.clusters.models import NodeState, OperationKind, OperationState, Step
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.engine.cluster.held_lease import HeldLease
from kiln.engine.cluster.node_worker import NodeWorker
from kiln.engine.conductor import Conductor
from kiln.engine.work_sources.base import WorkSource
from tests.unit.db.case import take_over
from tests.unit.engine.site import PIN, SETTINGS, STACK, OneDriver, Site, group


class Told(WorkSource):
    """Returns the clusters that a test sets, right or wrong."""

    def __init__(self):
        self.named = []
        self.finished = []
        self.polls = 0

    def start(self, wake):
        self.wake = wake

    def offer(self, cluster_id):
        self.named.append(cluster_id)
        self.wake()

    def take(self, besides=()):
        self.polls += 1
        return tuple(one for one in self.named if one not in besides)

    def done(self, cluster_id):
        self.finished.append(cluster_id)
        if cluster_id in self.named:
            self.named.remove(cluster_id)

    def close(self, wait_s=5.0):
        self.named.clear()


class Sources(Site):
    def setUp(self):
        super().setUp()
        self.conductor.close()
        self.source = Told()
        self.conductor = self.conduct(self.source)

    def conduct(self, source):
        conductor = Conductor(self.parts, source=source)
        self.addCleanup(conductor.close)
        conductor.start()
        return conductor

    def test_only_named_clusters_are_worked_on_and_then_reported_done(self):
        cluster, operation = self.create(group(2))
        self.clock.sleep(4 * self.settings.poll_s)
        self.assertIs(OperationState.QUEUED, self.store.operations.get(operation.id).state)
        self.source.offer(cluster.id)
        self.succeeded(operation)
        self.until(lambda: self.source.finished == [cluster.id])
        self.assert_whole(cluster, 2)

    def test_a_cluster_without_work_is_done_without_a_lease(self):
        self.source.offer('never-heard-of')
        self.until(lambda: self.source.finished == ['never-heard-of'])
        self.assertIsNone(self.store.leases.get('never-heard-of'))

    def test_a_paused_cluster_is_left_alone_whatever_the_source_returns(self):
        cluster, operation = self.create(group(1))
        self.store.clusters.pause(cluster.id)
        self.source.offer(cluster.id)
        self.until(lambda: self.source.finished == [cluster.id])
        self.assertIs(OperationState.QUEUED, self.store.operations.get(operation.id).state)
        self.store.clusters.resume(cluster.id)
        self.source.offer(cluster.id)
        self.succeeded(operation)

    def test_a_cluster_is_kept_for_work_that_is_submitted_while_its_last_round_ends(self):
        last, gate = threading.Event(), threading.Event()
        self.addCleanup(gate.set)
        read = self.store.operations.open

        def read_slowly(scope):
            found = read(scope)
            if not found:
                last.set()
                gate.wait(60)
            return found

        self.store.operations.open = read_slowly
        cluster, _ = self.create(group(1))
        self.source.offer(cluster.id)
        self.assertTrue(last.wait(60))
        polls = self.source.polls
        later = self.change(cluster, group(2))
        self.until(lambda: self.source.polls > polls)
        gate.set()
        self.succeeded(later)
        self.until(lambda: self.source.finished)
        self.assertEqual([cluster.id], self.source.finished)
        self.assertEqual(1, self.store.leases.get(cluster.id).epoch)

    def test_only_one_of_two_conductors_sent_to_a_cluster_works_on_it(self):
        other = Told()
        self.conduct(other)
        cluster, operation = self.create(group(4))
        for source in (self.source, other):
            source.offer(cluster.id)
        self.succeeded(operation)
        self.assert_whole(cluster, 4)
        # Each finds that there is nothing left to do.
        self.until(lambda: self.source.finished and other.finished)
        self.assertLessEqual(self.store.leases.get(cluster.id).epoch, 2)

    def test_work_that_was_released_half_way_is_named_again(self):
        self.fault('build:hang:seconds=0.3')
        cluster, _ = self.create(group(2))
        self.source.offer(cluster.id)
        self.until(lambda: self.states(cluster)[NodeState.BUILDING])
        self.conductor.close()
        self.assertEqual(([cluster.id], []), (self.source.named, self.source.finished))


class Leaving(Site):
    settings = dataclasses.replace(SETTINGS, quiesce_s=1.5)

    def test_an_unsettled_release_makes_the_next_owner_wait(self):
        self.fault('build:hang:seconds=0.2')
        cluster, operation = self.create(group(2))
        self.until(lambda: self.states(cluster)[NodeState.BUILDING] == 2)
        self.conductor.close()
        left = self.store.leases.get(cluster.id)
        self.assertTrue(left.owner)
        began = self.clock.monotonic()
        self.conductor = Conductor(self.parts)
        self.addCleanup(self.conductor.close)
        self.conductor.start()
        self.until(lambda: self.store.leases.get(cluster.id).epoch > left.epoch)
        # It has the lease at once, so that no other conductor waits as well.
        self.assertLess(self.clock.monotonic() - began, self.settings.quiesce_s)
        self.succeeded(operation)
        self.assertGreaterEqual(self.clock.monotonic() - began, self.settings.quiesce_s)
        self.assert_whole(cluster, 2)

    def test_a_waiting_conductor_releases_its_leases_when_closed(self):
        cluster = self.created(group(1))
        self.leave_unsettled(cluster)
        self.until(lambda: self.store.leases.get(cluster.id).expires_at > self.clock.time())
        self.conductor.close()
        lease = self.store.leases.get(cluster.id)
        self.assertEqual(0.0, lease.expires_at)
        self.assertTrue(lease.owner)

    def test_a_waiting_conductor_that_loses_the_lease_does_not_begin(self):
        cluster = self.created(group(1))
        operation = self.leave_unsettled(cluster)
        self.until(lambda: self.store.leases.get(cluster.id).expires_at > self.clock.time())
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            take_over(self.store, cluster.id, 'another', 60)
            self.until(lambda: logs.output)
        self.assertIs(OperationState.QUEUED, self.store.operations.get(operation.id).state)

    def leave_unsettled(self, cluster):
        """Begin a step as an owner that then disappears; return the operation."""
        operation = self.operation(cluster.id, OperationKind.CHECK)
        lease = take_over(self.store, cluster.id, 'somebody', 60)
        self.store.operations.submit(operation)
        step = Step(
            id='s', operation_id=operation.id, cluster_id=cluster.id, kind='build',
            started_at=self.clock.time(),
        )  # fmt: skip
        with self.store.writing(lease) as batch:
            batch.step(step)
        self.store.leases.release(lease, unsettled=True)
        self.conductor.wake()
        return operation


class ManyAtOnce(Site):
    settings = dataclasses.replace(SETTINGS, quiesce_s=1.0, lease_s=3.0)

    def test_waiting_for_many_clusters_takes_no_longer_than_for_one(self):
        operations = []
        for number in range(6):
            cluster = self.created(group(1), name=f'c{number}')
            operations.append(Leaving.leave_unsettled(self, cluster))
        began = self.clock.monotonic()
        for operation in operations:
            self.succeeded(operation)
        # One after the other they would outlast the leases of all others.
        self.assertLess(self.clock.monotonic() - began, 3 * self.settings.quiesce_s)


class Launching(Site):
    """A process can be stopped between the commit and the last of many actions."""

    def setUp(self):
        #: Called when a build is started, after the commit.
        self.sleep = lambda: None
        super().setUp()
        self.conductor.close()
        self.cluster, _ = self.create(group(4))
        self.lease = self.store.leases.claim(self.cluster.id, 'me', 60)
        self.held = HeldLease(self.parts, self.lease)
        self.results = []
        self.work = NodeWorker(self.parts, self.held, self.driver, self.results.append)

    def open_backend(self, name):
        site = self

        class Sleepy(Compute):
            def build(self, *args, **more):
                site.sleep()
                return super().build(*args, **more)

        return Sleepy(NoopDriver(cloud=self.cloud), settings=STACK)

    def build_all(self):
        """Run rounds until the builds of all nodes are started."""
        self.work.run_round([])
        self.until(lambda: len(self.results) == 4)
        self.work.run_round(self.results)

    def test_a_process_that_slept_and_was_overtaken_starts_nothing_more(self):
        def sleep():
            take_over(self.store, self.cluster.id, 'another', 60)
            self.held.sure_until = 0.0

        self.sleep = sleep
        with self.assertRaises(LeaseLost):
            self.build_all()
        # What had been started by then can arrive, and is found by its key.
        self.until(self.machines)
        self.clock.sleep(0.1)
        self.assertEqual(1, len(self.machines()))
        self.assertEqual({NodeState.BUILDING: 4}, self.states(self.cluster))

    def test_a_process_that_slept_and_was_not_overtaken_continues(self):
        self.sleep = lambda: setattr(self.held, 'sure_until', 0.0)
        self.build_all()
        self.until(lambda: len(self.machines()) == 4)
        renewed = self.store.leases.get(self.cluster.id)
        self.assertEqual(self.lease.epoch, renewed.epoch)
        self.assertEqual(self.lease.owner, renewed.owner)


class Missing(OneDriver):
    """Has the driver of clusters named ``here``, and of no others."""

    asked = 0

    def open(self, pin):
        self.asked += 1
        if pin.name != 'here':
            raise ClusterDriverUnknown('Cluster driver "plain" 1.0.0 is not installed.')
        return super().open(pin)


class Shunned(Site):
    def test_many_clusters_that_cannot_start_here_do_not_delay_the_next(self):
        self.conductor.close()
        self.parts = dataclasses.replace(self.parts, drivers=Missing(self.driver))
        # More than one poll of the store returns.
        for number in range(101):
            self.create(group(1), name=f'web-{number}')
        here = dataclasses.replace(PIN, name='here')
        last, operation = self.create(group(1), pin=here)
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            self.conductor = Conductor(self.parts)
            self.addCleanup(self.conductor.close)
            self.conductor.start()
            self.succeeded(operation)
        self.assertEqual(101, len(logs.output))
        self.assert_whole(last, 1)

    def test_a_cluster_that_cannot_start_here_does_not_affect_others(self):
        self.conductor.close()
        drivers = Missing(None)
        whole, self.parts = self.parts, dataclasses.replace(self.parts, drivers=drivers)
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            self.conductor = Conductor(self.parts)
            self.addCleanup(self.conductor.close)
            self.conductor.start()
            cluster, operation = self.create(group(1))
            self.until(lambda: logs.output)
            self.clock.sleep(5 * self.settings.poll_s)
        self.assertEqual(1, drivers.asked, 'it is tried once in a while')
        self.assertEqual(1, len(logs.output))
        # If the driver is installed, the cluster is worked on at once.
        other = Conductor(whole)
        self.addCleanup(other.close)
        other.start()
        self.succeeded(operation)
        self.assert_whole(cluster, 1)
