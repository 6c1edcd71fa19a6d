"""Drivers tend clusters without an operation, and the trouble they find is recorded."""

import dataclasses
import threading

from kiln.clock import current_deadline
from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.cluster_service.views import ClusterView
from kiln.cluster_service.why import why
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import NodeState, OperationKind
from kiln.clusters.spec import MachineSpec
from kiln.engine.health.driver_upkeep import MOST, DriverUpkeep
from tests.unit.db.case import take_over
from tests.unit.engine.site import SETTINGS, OneDriver, Plain, Site, group


class Tender(Plain):
    """Tends as a test sets it."""

    def __init__(self):
        self.calls = []
        self.error = None
        self.gate = threading.Event()
        self.gate.set()

    def tend(self, context, cluster):
        self.calls.append((cluster.name, len(context.nodes), current_deadline().remaining_s()))
        self.gate.wait(120)
        if self.error is not None:
            raise self.error


class TendedSite(Site):
    def setUp(self):
        self.driver = Tender()
        super().setUp()
        self.tending = DriverUpkeep(self.parts, 'tests')
        self.addCleanup(self.tending.close)
        self.addCleanup(self.driver.gate.set)

    def settled(self):
        newest = self.store.operations.newest()
        return {key: one for key, one in newest.items() if one.state.ended}

    def tend(self):
        """Tend all settled clusters, and wait for the end."""
        self.tending.begin(self.settled())
        self.until(self.idle)

    def idle(self):
        leases = [self.store.leases.get(one.id) for one in self.store.clusters.list()]
        return not self.tending.busy and not any(lease.owner for lease in leases)

    def trouble(self, cluster):
        found = self.store.clusters.get(cluster.id).trouble
        return found and (found.message, found.hint)

    def events(self, cluster):
        events = self.store.events.after(0, cluster_id=cluster.id)
        return [one.kind for one in events if one.kind in ('cluster-well', 'cluster-trouble')]


class Tended(TendedSite):
    def test_a_settled_cluster_is_tended_with_its_nodes_and_a_deadline(self):
        cluster = self.created(group(3))
        self.tend()
        ((name, nodes, left_s),) = self.driver.calls
        self.assertEqual((cluster.name, 3), (name, nodes))
        self.assertLessEqual(left_s, SETTINGS.lease_s / 2)
        self.assertEqual([], self.events(cluster))

    def test_trouble_is_kept_reported_once_and_cleared_when_healthy(self):
        cluster = self.created(group(1))
        self.driver.error = ClusterDriverError('No manager can be asked.')
        for _ in range(2):
            self.tend()
            self.assertEqual('No manager can be asked.', self.trouble(cluster)[0])
        self.assertEqual(['cluster-trouble'], self.events(cluster))
        self.driver.error = None
        self.tend()
        self.assertIsNone(self.trouble(cluster))
        self.assertEqual(['cluster-trouble', 'cluster-well'], self.events(cluster))

    def test_an_error_affects_neither_the_nodes_nor_the_next_operation(self):
        cluster = self.created(group(2))
        self.driver.error = ZeroDivisionError('a mistake')
        self.tend()
        self.assertIn('ZeroDivisionError: a mistake', self.trouble(cluster)[0])
        self.assertEqual({NodeState.READY: 2}, self.states(cluster))
        self.succeeded(self.change(cluster, group(3)))
        self.assertIsNone(self.trouble(cluster), 'what the operation left is tended again')

    def test_people_see_the_trouble_and_its_remedy(self):
        cluster = self.created(group(1))
        self.driver.error = ClusterDriverError('The quorum is lost.')
        self.tend()
        there = self.store.clusters.get(cluster.id)
        view = ClusterView.of(
            there, tuple(self.nodes(cluster)), self.store.operations.newest()[cluster.id]
        )
        self.assertEqual('degraded', view.state)
        said = '\n'.join(line for one in why(view, self.clock.time()) for line in one.lines())
        self.assertIn('as plain sees it: not as it should be\n  because: The quorum', said)
        self.assertIn(f'you: {ClusterDriverError.remedy}', said)

    def test_a_cluster_with_a_worker_is_not_tended(self):
        cluster = self.created(group(1))
        self.until(self.idle)
        lease = self.store.leases.claim(cluster.id, 'another', 60)
        self.tending.begin(self.settled())
        self.until(lambda: not self.tending.busy)
        self.assertEqual([], self.driver.calls)
        self.store.leases.release(lease)
        self.tend()
        self.assertEqual(1, len(self.driver.calls))

    def test_an_operation_waits_until_the_driver_is_done(self):
        cluster = self.created(group(1))
        self.driver.gate.clear()
        self.tending.begin(self.settled())
        self.until(lambda: self.driver.calls)
        operation = self.change(cluster, group(2))
        self.clock.sleep(0.2)
        self.assertEqual(1, len(self.nodes(cluster)))
        self.driver.gate.set()
        self.succeeded(operation)

    def test_a_new_lease_holder_is_not_overwritten(self):
        cluster = self.created(group(1))
        self.driver.gate.clear()
        self.driver.error = ClusterDriverError('Late.')
        self.tending.begin(self.settled())
        self.until(lambda: self.driver.calls)
        take_over(self.store, cluster.id, 'another', 60)
        with self.assertLogs('kiln.engine.health.driver_upkeep', 'INFO'):
            self.driver.gate.set()
            self.until(lambda: not self.tending.busy)
        self.assertIsNone(self.trouble(cluster))


class Untended(TendedSite):
    def test_paused_failed_and_deleted_clusters_are_not_tended(self):
        paused, failed, gone = (self.created(group(1), name=name) for name in 'abc')
        self.store.clusters.pause(paused.id)
        self.fault('build:quota')
        self.ended(self.change(failed, group(2, machine=MachineSpec(image='new')), within_s=1))
        settled = self.settled()
        self.succeeded(self.submit(gone, OperationKind.DELETE))
        self.tending.begin(settled)
        self.until(lambda: not self.tending.busy)
        self.assertEqual([], self.driver.calls)

    def test_nothing_is_started_after_close(self):
        self.created(group(1))
        self.tending.close()
        self.tending.begin(self.settled())
        self.until(lambda: not self.tending.busy)
        self.assertEqual([], self.driver.calls)


class Many(TendedSite):
    def test_a_few_are_tended_at_once_and_each_has_its_turn(self):
        names = [f'c{number}' for number in range(MOST + 2)]
        for name in names:
            self.created(group(1), name=name)
        self.driver.gate.clear()
        for _ in range(3):
            self.tending.begin(self.settled())
        self.until(lambda: len(self.driver.calls) == MOST)
        self.clock.sleep(0.1)
        self.assertEqual(MOST, len(self.driver.calls))
        self.driver.gate.set()
        self.until(lambda: not self.tending.busy)
        self.assertEqual(set(names), {name for name, *_ in self.driver.calls})


class Counted(OneDriver):
    """Counts how often its driver is opened."""

    asked = 0

    def open(self, pin):
        self.asked += 1
        return super().open(pin)


class LeftAlone(Site):
    """Clusters whose driver does not tend them."""

    def test_a_driver_is_opened_once_until_another_operation(self):
        cluster = self.created(group(1))
        drivers = Counted(self.driver)
        tending = DriverUpkeep(dataclasses.replace(self.parts, drivers=drivers), 'tests')
        for _ in range(3):
            tending.begin(self.store.operations.newest())
            self.until(lambda: not tending.busy)
        self.assertEqual(1, drivers.asked)
        self.succeeded(self.change(cluster, group(2)))
        tending.begin(self.store.operations.newest())
        self.until(lambda: not tending.busy)
        self.assertEqual(2, drivers.asked)


class Standing(Site):
    settings = dataclasses.replace(SETTINGS, watch_s=0.05)

    def setUp(self):
        self.driver = Tender()
        super().setUp()

    def test_a_conductor_tends_its_clusters_by_itself(self):
        self.created(group(1))
        self.until(lambda: len(self.driver.calls) > 2)


class Count(Monitor):
    metrics = (Metric('nodes', 'nodes', 'All nodes.'), Metric('heat', 'celsius', 'Warmth.'))

    def pull(self):
        return {'nodes': len(self.context.nodes)}


class Measuring(Plain):
    """Measures, and does not tend."""

    def get_monitor(self, context, cluster):
        return Count(context, cluster)


class Measured(TendedSite):
    def setUp(self):
        super().setUp()
        self.driver = Measuring()
        self.exported = []
        parts = dataclasses.replace(
            self.parts, drivers=OneDriver(self.driver),
            export_readings=lambda *values: self.exported.append(values),
        )  # fmt: skip
        self.tending = DriverUpkeep(parts, 'tests')
        self.addCleanup(self.tending.close)

    def idle(self):
        return not self.tending.busy

    def test_what_a_driver_measures_is_exported_each_time(self):
        cluster = self.created(group(2))
        self.tend()
        self.tend()
        self.assertEqual([(cluster.name, {'nodes': 2.0, 'heat': None})] * 2, self.exported)

    def test_a_deleted_cluster_has_no_values(self):
        cluster = self.created(group(1))
        self.tend()
        self.succeeded(self.submit(cluster, OperationKind.DELETE))
        self.exported.clear()
        self.tend()
        self.tend()
        self.assertEqual([(cluster.name, {})], self.exported)
