"""Clusters apart: what one cluster does, however large or slow, leaves the others alone."""

import contextlib
import dataclasses
import logging
import threading

from kiln.cluster_drivers.values import READY, Readiness
from kiln.clusters.exceptions import LeaseLost
from kiln.clusters.models import NodeState, OperationKind
from kiln.engine.cluster.held_lease import HeldLease
from kiln.engine.conductor import ROUNDS, Conductor
from kiln.engine.failures import Failures
from kiln.engine.held_cluster import RESULTS, HeldCluster, RoundEnd
from tests.unit.engine.site import PIN, SETTINGS, Plain, Site, group

LOG = logging.getLogger(__name__)


class Weighing:
    """A store that counts the nodes that each commit adds or marks for removal."""

    def __init__(self, store):
        self._store = store
        self.added, self.doomed = [], []

    def __getattr__(self, name):
        return getattr(self._store, name)

    @contextlib.contextmanager
    def writing(self, lease):
        with self._store.writing(lease) as batch:
            known = {one.id: one.doomed for one in self._store.nodes.of(lease.scope)}
            nodes = []
            write = batch.node
            batch.node = lambda node: nodes.append(node) or write(node)
            yield batch
        self.added.append(sum(one.id not in known for one in nodes))
        self.doomed.append(sum(known.get(one.id) == '' and one.doomed != '' for one in nodes))


class Portions(Site):
    settings = dataclasses.replace(SETTINGS, portion=3)

    def open_site_store(self, url):
        self.weighing = Weighing(super().open_site_store(url))
        return self.weighing

    def test_a_large_cluster_is_planned_in_portions_and_completed(self):
        cluster = self.created(group(5), group(5, 'more'))
        self.assert_whole(cluster, 10)
        self.assertEqual([3, 3, 3, 1], [count for count in self.weighing.added if count])

    def test_a_large_cluster_is_removed_in_portions(self):
        cluster = self.created(group(8))
        self.ended(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual({}, self.machines())
        self.assertEqual([3, 3, 2], [count for count in self.weighing.doomed if count])

    def test_a_conductor_that_takes_over_goes_on_where_the_last_portion_ended(self):
        self.fault('build:hang:seconds=0.5')
        cluster, operation = self.create(group(8))
        self.until(lambda: len(self.nodes(cluster)) >= 3)
        self.take_over()
        self.succeeded(operation)
        self.assert_whole(cluster, 8)


class Slow(Plain):
    """Nodes of clusters whose name begins with ``huge`` are never ready."""

    def is_ready(self, context, cluster, node):
        return Readiness.not_yet('it boots') if cluster.name.startswith('huge') else READY


class LastingRounds(Site):
    """Rounds that last, as those of a large cluster do."""

    driver = Slow()

    def setUp(self):
        super().setUp()
        self.hung, self.gate = threading.Semaphore(0), threading.Event()
        self.addCleanup(self.gate.set)
        write = self.store.writing

        def writing(lease):
            if self.store.clusters.get(lease.scope).name.startswith('huge'):
                self.hung.release()
                # Known to the clock as a wait, so that time goes on.
                self.gate.wait(60)
            return write(lease)

        self.store.writing = writing

    def hang(self, count):
        """Create clusters whose first round lasts; return them once it has begun."""
        clusters = [self.create(group(2), name=f'huge{number}')[0] for number in range(count)]
        for _ in clusters:
            self.assertTrue(self.hung.acquire(timeout=60))
        return clusters

    def test_rounds_that_last_leave_another_cluster_ready(self):
        self.hang(ROUNDS - 1)
        cluster = self.created(group(2))
        self.assertEqual({NodeState.READY: 2}, self.states(cluster))

    def test_leases_are_renewed_while_a_round_lasts(self):
        (huge,) = self.hang(1)
        lease = self.store.leases.get(huge.id)
        self.clock.sleep(3 * self.settings.lease_s)
        now = self.store.leases.get(huge.id)
        self.assertEqual((lease.owner, lease.epoch), (now.owner, now.epoch))
        self.assertGreater(now.expires_at, self.clock.time())

    def test_a_conductor_ends_without_a_round_that_lasts_and_the_round_writes_nothing(self):
        (huge,) = self.hang(1)
        self.conductor.close(0.2)
        self.until(lambda: self.store.leases.get(huge.id).expires_at == 0.0)
        with self.assertLogs('kiln.engine', 'INFO') as logs:
            self.gate.set()
            self.until(lambda: logs.output)
        self.assertIn('another owner holds it now', logs.output[0])
        self.assertEqual((), self.store.nodes.of(huge.id))
        self.conductor = Conductor(self.parts)
        self.addCleanup(self.conductor.close)
        self.conductor.start()
        self.until(lambda: self.states(huge)[NodeState.JOINING] == 2)
        self.assertEqual(2, len(self.machines()))


class GivenUp(Site):
    def test_a_lease_that_was_given_up_is_not_renewed(self):
        self.conductor.close()
        cluster, _ = self.create(group(1), pin=PIN)
        lease = self.store.leases.claim(cluster.id, 'me', 60)
        held = HeldLease(self.parts, lease)
        held.renew()
        held.give_up()
        for use in (held.renew, held.ensure):
            with self.assertRaises(LeaseLost):
                use()


class Rounds(Site):
    """What a round takes in, by a worker that a test plays."""

    def setUp(self):
        super().setUp()
        self.conductor.close()
        self.taken, self.reads, self.idle, self.moved, self.due = [], 0, False, False, 7.0
        lease = self.store.leases.claim('c', 'me', 60)
        self.held = HeldCluster(HeldLease(self.parts, lease), lambda held: self, 3.0, Failures())

    def run_round(self, results):
        self.taken.append(len(list(results)))

    def reload(self):
        self.reads += 1

    def test_a_round_takes_in_a_limited_number_of_results(self):
        self.assertIs(RoundEnd.GOES_ON, self.held.run_round())
        for _ in range(2 * RESULTS + 1):
            self.held.add(lambda: None)
        while self.held.due < 0:
            self.held.run_round()
        self.assertEqual([0, RESULTS, RESULTS, 1], self.taken)

    def test_it_is_due_first_when_it_may_begin_and_then_as_its_worker_says(self):
        self.assertEqual(3.0, self.held.due)
        self.held.run_round()
        self.assertEqual(7.0, self.held.due)
        self.held.reads = True
        self.assertLess(self.held.due, 0)
        self.held.running = True
        self.assertGreater(self.held.due, 1e9)

    def test_the_round_after_a_poll_reads_first_what_others_have_written(self):
        self.held.run_round()
        self.held.reads = True
        self.idle = True
        self.assertIs(RoundEnd.DONE, self.held.run_round())
        self.assertEqual(1, self.reads)
        self.assertFalse(self.held.reads)
