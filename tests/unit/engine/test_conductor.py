"""A conductor brings clusters to their desired state."""

import contextlib
import dataclasses
import math
import sqlite3

from kiln.cluster_drivers.values import DRAINED, READY, Drained, Readiness
from kiln.clusters.exceptions import StoreBroken, StoreError
from kiln.clusters.models import NodeState, OperationKind, OperationState, StepState
from kiln.clusters.spec import (
    Fallback,
    Health,
    MachineSpec,
    NodeGroupSpec,
    Place,
    Portion,
    Shape,
    Strategy,
)
from kiln.engine.conductor import SHUN_S, Conductor
from tests.unit.engine.site import SETTINGS, Plain, Site, group


class Life(Site):
    def test_every_node_is_one_machine_with_a_step_and_a_holding(self):
        cluster, operation = self.create(group(5))
        self.succeeded(operation)
        self.assert_whole(cluster, 5)
        steps = self.store.journal.of(operation.id)
        self.assertEqual(5, len(steps))
        self.assertEqual({StepState.DONE}, {step.state for step in steps})
        holdings = {one.id for one in self.store.receipts.holdings(cluster.id)}
        self.assertEqual(holdings, self.machines().keys())
        self.assertEqual(
            {step.token for step in steps}, {one.build_key for one in self.machines().values()}
        )

    def test_003_4_a_node_is_removed_from_the_middle_and_no_other_changes(self):
        cluster = self.created(group(6))
        nodes = self.nodes(cluster)
        self.succeeded(self.change(cluster, group(4), doomed=[nodes[2].id, nodes[3].id]))
        self.assert_whole(cluster, 4)
        self.assertEqual(nodes[:2] + nodes[4:], self.nodes(cluster))

    def test_003_8_control_nodes_are_built_before_the_nodes_that_join_them(self):
        cluster = self.created(group(3), group(2, 'control', role='control'))
        self.assert_whole(cluster, 5)
        ready = {name: [node.since for node in self.nodes(cluster) if node.group == name]
                 for name in ('control', 'work')}  # fmt: skip
        planned = [node.created_at for node in self.nodes(cluster) if node.group == 'work']
        self.assertLessEqual(min(ready['control']), min(planned))

    def test_003_2_flavors_and_zones_match_their_counts(self):
        shape = Shape(count=3, placements={Place('small', 'az1'): 1, Place('large', 'az2'): 2})
        self.created(NodeGroupSpec(name='work', shape=shape))
        machines = self.machines().values()
        self.assertEqual(
            [('large', 'az2'), ('large', 'az2'), ('small', 'az1')],
            sorted((one.flavor, one.availability_zone) for one in machines),
        )

    def test_only_the_receipt_of_a_deleted_cluster_is_left(self):
        cluster = self.created(group(4))
        ids = sorted(self.machines())
        self.ended(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual({}, self.machines())
        receipt = self.store.receipts.get(cluster.id)
        self.assertEqual(ids, sorted(one.id for one in receipt.holdings))
        self.assertTrue(all(one.gone_at for one in receipt.holdings))
        self.assertEqual((), receipt.abandoned)

    def test_unrecorded_machines_are_deleted_with_the_cluster(self):
        cluster = self.created(group(2))
        compute = self.parts.backends.get(None)
        stray = compute.build(name='stray', metadata={'cluster': cluster.id})
        other = compute.build(name='other', metadata={'cluster': 'another'})
        stray.result(120)
        self.ended(self.submit(cluster, OperationKind.DELETE))
        self.until(lambda: list(self.machines()) == [other.result()])

    def test_a_changed_machine_spec_is_upgraded_without_losing_capacity(self):
        cluster = self.created(group(4))
        old = {node.id for node in self.nodes(cluster)}
        strategy = Strategy(max_surge=Portion(1), max_unavailable=Portion(0))
        new = group(4, machine=MachineSpec(image='new'), strategy=strategy)
        with self.clock.seen(lambda: self.states(cluster)[NodeState.READY]) as seen:
            self.succeeded(self.change(cluster, new, kind=OperationKind.UPGRADE))
        self.assert_whole(cluster, 4)
        self.assertEqual({'new'}, {one.image_id for one in self.machines().values()})
        self.assertFalse(old & {node.id for node in self.nodes(cluster)})
        self.assertGreaterEqual(min(seen), 4)

    def test_a_named_node_is_replaced(self):
        cluster = self.created(group(3))
        old = self.nodes(cluster)[1]
        self.succeeded(self.submit(cluster, OperationKind.REPLACE, replace=[old.id]))
        self.assert_whole(cluster, 3)
        self.assertNotIn(old.id, {node.id for node in self.nodes(cluster)})

    def test_many_clusters_are_worked_on_at_once(self):
        clusters = [self.create(group(3), name=f'c{number}') for number in range(5)]
        for _, operation in clusters:
            self.succeeded(operation)
        self.assertEqual(15, len(self.machines()))


class Trouble(Site):
    def test_a_lost_response_builds_no_second_machine(self):
        self.fault('build:lose_answer:times=3')
        cluster = self.created(group(5))
        self.assert_whole(cluster, 5)

    def test_a_failed_machine_is_replaced_and_deleted(self):
        self.fault('build:error:times=2')
        cluster = self.created(group(6))
        self.assert_whole(cluster, 6)

    def test_a_create_whose_builds_all_fail_continues_when_the_backend_builds_again(self):
        self.fault('build:error:times=5')
        cluster = self.created(group(4))
        self.assert_whole(cluster, 4)

    def test_an_operation_whose_nodes_all_fail_waits_with_a_reason(self):
        self.fault('build:error')
        _, operation = self.create(group(4), within_s=12)
        waiting = (OperationState.WAITING, 'held')

        def held():
            found = self.store.operations.get(operation.id)
            return (found.state, found.cause and found.cause.code) == waiting

        self.until(held)
        ended = self.ended(operation)
        self.assertEqual((OperationState.FAILED, 'deadline'), (ended.state, ended.cause.code))
        self.assertRegex(ended.cause.because.message, r'\d+ nodes failed in a row')

    def test_a_build_that_always_fails_is_not_repeated_for_ever(self):
        self.fault('build:error')
        # One failed node is not an outage, so the brake does not hold.
        cluster, operation = self.create(group(1), within_s=4)
        self.assertIs(OperationState.FAILED, self.ended(operation).state)
        built = self.store.receipts.holdings(cluster.id)
        # At once, and then one, two and four seconds after the last one.
        self.assertIn(len(built), (3, 4))
        self.assertIn('failed in a row', self.ended(operation).cause.because.message)

    def test_a_failed_operation_does_not_block_the_next(self):
        self.fault('build:error')
        cluster, operation = self.create(group(4), within_s=0.5)
        self.assertIs(OperationState.FAILED, self.ended(operation).state)
        self.cloud.faults.clear()
        everyone = [node.id for node in self.nodes(cluster)]
        self.succeeded(self.change(cluster, group(3), doomed=everyone))
        self.assert_whole(cluster, 3)

    def test_the_next_zone_is_tried_if_a_zone_has_no_room(self):
        self.cloud.catalogue.capacity['az1'] = 1
        shape = Shape(count=3, placements={Place('small', 'az1'): 3})
        spec = NodeGroupSpec(name='work', shape=shape, fallback=Fallback(zones=('az2', 'az3')))
        self.created(spec)
        zones = sorted(one.availability_zone for one in self.machines().values())
        self.assertEqual(['az1', 'az2', 'az2'], zones)

    def test_without_quota_it_waits_with_a_reason_and_continues_later(self):
        self.fault('build:quota')
        cluster, operation = self.create(group(2))

        def waits():
            found = self.store.operations.get(operation.id)
            return found.cause is not None and found.cause.code == 'quota_exceeded'

        self.until(waits)
        self.assertEqual({NodeState.PLANNED: 2}, self.states(cluster))
        self.cloud.faults.clear()
        self.succeeded(operation)

    def test_the_next_operation_continues_after_a_cancelled_one(self):
        self.fault('build:quota')
        cluster, operation = self.create(group(3))
        self.until(lambda: NodeState.PLANNED in self.states(cluster))
        self.store.operations.cancel(operation.id)
        self.assertIs(OperationState.CANCELLED, self.ended(operation).state)
        self.cloud.faults.clear()
        self.ended(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual({}, self.machines())

    def test_an_outage_is_written_within_seconds_and_cleared_when_it_is_over(self):
        self.fault('build:refuse=down for repairs')
        cluster, operation = self.create(group(3))
        began = self.clock.time()
        self.until(lambda: sum(bool(node.cause) for node in self.nodes(cluster)) == 3)
        self.assertLess(self.clock.time() - began, 5.0)
        self.assertEqual({NodeState.BUILDING: 3}, self.states(cluster))
        for node in self.nodes(cluster):
            cause = node.cause
            while cause is not None:
                # Nodes with one cause are shown together, so it names none of them.
                self.assertNotIn('web-work', cause.message)
                cause, last = cause.because, cause
            self.assertEqual('Cannot build: down for repairs; repeat it later.', last.message)
        self.cloud.faults.clear()
        self.succeeded(operation)
        self.assertEqual({None}, {node.cause for node in self.nodes(cluster)})

    def test_a_refused_delete_is_repeated_until_it_succeeds(self):
        cluster = self.created(group(3))
        self.fault('delete:refuse:times=4')
        self.ended(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual({}, self.machines())

    def test_a_node_to_be_removed_during_its_build_is_built_then_removed(self):
        self.fault('build:hang:seconds=0.5')
        cluster, operation = self.create(group(2))
        self.until(lambda: self.states(cluster)[NodeState.BUILDING] == 2)
        self.store.operations.cancel(operation.id)
        self.ended(operation)
        self.ended(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual({}, self.machines())


class Forgetful:
    """A store that fails at some of its commits, before or after writing."""

    def __init__(self, store, *, before=(), after=()):
        self._store = store
        self._before, self._after = before, after
        self._count = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    @contextlib.contextmanager
    def writing(self, lease):
        self._count += 1
        count = self._count
        with self._store.writing(lease) as batch:
            yield batch
            if count in self._before:
                raise StoreError('Cannot write: somebody has the lock.')
        if count in self._after:
            raise StoreError('Cannot tell whether it was written.')


class TroubleWithTheStore(Site):
    settings = dataclasses.replace(SETTINGS, quiesce_s=0.02)

    def open_site_store(self, url):
        return Forgetful(super().open_site_store(url), before=(2, 4, 7), after=(3, 9))

    def test_a_round_that_cannot_be_written_starts_again_from_the_store(self):
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            cluster = self.created(group(5))
            self.assert_whole(cluster, 5)
        self.assertIn('begins again from the store', logs.output[0])
        with self.assertNoLogs('kiln.engine', 'CRITICAL'):
            self.ended(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual({}, self.machines())


class Unreadable:
    """The nodes of a store that cannot be read at the first attempts."""

    def __init__(self, nodes, failures):
        self._nodes = nodes
        self._failures = failures

    def __getattr__(self, name):
        return getattr(self._nodes, name)

    def of(self, cluster_id):
        self._failures -= 1
        if self._failures >= 0:
            raise StoreError('Cannot read: somebody has the lock.')
        return self._nodes.of(cluster_id)


class TroubleAtTheBeginning(Site):
    def open_site_store(self, url):
        store = super().open_site_store(url)
        store.nodes = Unreadable(store.nodes, 2)
        return store

    def test_a_cluster_that_cannot_be_read_is_started_by_the_next_poll(self):
        began = self.clock.monotonic()
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            cluster = self.created(group(2))
        self.assertLess(self.clock.monotonic() - began, SHUN_S / 2)
        self.assertIn('Work on cluster', logs.output[0])
        self.assertIn('somebody has the lock', logs.output[0])
        self.assert_whole(cluster, 2)


class Turns(Site):
    """Turns of a conductor one by one, without its thread."""

    def test_a_turn_that_does_without_the_store_is_no_proof_that_it_works(self):
        self.conductor.close()
        conductor = Conductor(self.parts)
        conductor._renew_at = math.inf
        with self.assertLogs('kiln.engine.failures', 'WARNING') as logs:
            for _ in range(2):
                self.parts.failures.failed('x', StoreError('Cannot read the store: it is away'))
            for poll_at in (math.inf, -math.inf):
                told = len(logs.records)
                conductor._poll_at = poll_at
                conductor._put(lambda: None)
                conductor._turn()
        self.assertEqual((1, 2), (told, len(logs.records)))
        self.assertIn('No longer so, after 2 times: The store', logs.output[-1])


class WithoutItsStore(Site):
    def break_store(self, table):
        with contextlib.closing(sqlite3.connect(self.store._database.path)) as connection:
            connection.execute(f'ALTER TABLE {table} RENAME TO elsewhere')
            connection.commit()

    def test_a_conductor_ends_by_itself_with_the_reason(self):
        self.created(group(2))
        self.conductor.check()
        self.break_store('lease')
        self.conductor.wake()
        with self.assertRaisesRegex(StoreBroken, 'no such table: lease'):
            self.conductor.wait()

    def test_it_ends_whatever_part_of_its_work_meets_the_damage(self):
        self.create(group(2))
        self.break_store('node')
        with self.assertRaisesRegex(StoreBroken, 'no such table: node'):
            self.conductor.wait()


class Slow(Plain):
    """Reports each node a few times as not ready, and once as still having work."""

    def __init__(self):
        self.asked = {}
        self.drained = {}

    def is_ready(self, context, cluster, node):
        self.asked[node.id] = self.asked.get(node.id, 0) + 1
        return READY if self.asked[node.id] > 4 else Readiness.not_yet('its agent is silent')

    def drain(self, context, cluster, node):
        self.drained[node.id] = self.drained.get(node.id, 0) + 1
        return DRAINED if self.drained[node.id] > 1 else Drained(False, 'it has work')


class DriverSays(Site):
    def setUp(self):
        self.driver = Slow()
        super().setUp()

    def test_a_node_is_joining_until_its_driver_reports_it_ready(self):
        cluster, operation = self.create(group(2))
        self.until(lambda: self.states(cluster)[NodeState.JOINING] == 2)
        self.until(lambda: all(node.cause for node in self.nodes(cluster)))
        self.assertEqual('its agent is silent', self.nodes(cluster)[0].cause.message)
        self.succeeded(operation)
        self.assertEqual([None, None], [node.cause for node in self.nodes(cluster)])

    def test_a_node_that_still_drains_has_the_drivers_reason(self):
        self.driver.drain = lambda *_, **__: Drained(False, 'it has work')
        cluster = self.created(group(2))
        victim = self.nodes(cluster)[0]
        self.change(cluster, group(1), doomed=[victim.id])
        self.until(lambda: self.store.nodes.get(cluster.id, victim.id).cause)
        self.assertEqual('it has work', self.store.nodes.get(cluster.id, victim.id).cause.message)
        self.driver.drain = lambda *_, **__: DRAINED

    def test_a_node_is_drained_before_it_is_deleted(self):
        cluster = self.created(group(2))
        victim = self.nodes(cluster)[0]
        self.succeeded(self.change(cluster, group(1), doomed=[victim.id]))
        self.assertEqual({victim.id: 2}, self.driver.drained)


class Strangers(Plain):
    """Its machines are independent of each other, and never become ready."""

    control_first = False

    def is_ready(self, context, cluster, node):
        return Readiness.not_yet('it boots')


class NobodyWaits(Site):
    driver = Strangers()

    def test_independent_machines_are_all_built_at_once(self):
        cluster, operation = self.create(group(2), group(1, 'control', role='control'), within_s=5)
        self.until(lambda: self.states(cluster) == {NodeState.JOINING: 3})
        self.store.operations.cancel(operation.id)


class Broken(Plain):
    def is_ready(self, context, cluster, node):
        return Readiness.failed('its disk is full')


class DriverGivesUp(Site):
    driver = Broken()

    def test_a_node_that_can_never_be_ready_fails_with_the_drivers_reason(self):
        health = Health(max_unhealthy=Portion(0))
        cluster, operation = self.create(group(2, health=health), within_s=1)
        self.assertIs(OperationState.FAILED, self.ended(operation).state)
        self.assertEqual({NodeState.FAILED: 2}, self.states(cluster))
        self.assertEqual('its disk is full', self.nodes(cluster)[0].cause.message)
