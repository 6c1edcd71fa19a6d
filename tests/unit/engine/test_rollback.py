"""An operation that fails is rolled back to the former state, if that is requested."""

import dataclasses
import itertools

from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.cluster_drivers.values import Drained
from kiln.clusters.models import NodeState, OperationKind, OperationState
from kiln.clusters.spec import MachineSpec, Portion, Strategy
from kiln.compute_drivers.noop.faults import Fault
from tests.unit.engine.site import PIN, Plain, Site, group

NEW = MachineSpec(image='new')


class Rollback(Site):
    def failing(self, cluster, *groups, **more):
        """Request other groups while no machine can be built; return the operation."""
        self.fault('build:error')
        given = {'kind': OperationKind.UPGRADE, 'within_s': 1.5, 'rollback': True}
        return self.change(cluster, *groups, **given | more)

    def turned_back(self, cluster):
        self.until(lambda: self.store.clusters.get(cluster.id).generation == 3)
        return self.store.clusters.get(cluster.id)

    def test_000_4_a_change_that_fails_is_rolled_back_with_its_cause(self):
        cluster = self.created(group(3))
        before = self.nodes(cluster)
        # Two builds have failed, and the next one waits: at the deadline a failed node is there.
        ended = self.ended(self.failing(cluster, group(3, machine=NEW), within_s=1.0))
        self.assertEqual(
            (OperationState.ROLLED_BACK, 'rolled_back'), (ended.state, ended.cause.code)
        )
        self.assertEqual('deadline', ended.cause.because.code)
        self.assertIn('nodes are not in their desired state', ended.cause.because.message)
        self.assertEqual(before, self.nodes(cluster))
        self.assert_whole(cluster, 3)

    def test_000_4_the_former_state_is_desired_again_in_the_next_generation(self):
        cluster = self.created(group(2))
        self.ended(self.failing(cluster, group(5), kind=OperationKind.RESIZE))
        there = self.store.clusters.get(cluster.id)
        self.assertEqual((cluster.spec, 3), (there.spec, there.generation))
        self.assertEqual(cluster.aim, there.former)

    def test_000_4_completed_changes_are_reverted(self):
        strategy = Strategy(max_surge=Portion(0), max_unavailable=Portion(1))
        cluster = self.created(group(3, strategy=strategy))
        self.fault('build:error:after=1')
        wanted = group(3, strategy=strategy, machine=NEW)
        upgrade = self.change(
            cluster, wanted, kind=OperationKind.UPGRADE, within_s=5.0, rollback=True
        )
        self.turned_back(cluster)
        self.cloud.faults.clear()
        self.assertIs(OperationState.ROLLED_BACK, self.ended(upgrade).state)
        self.assert_whole(cluster, 3)
        self.assertEqual({None}, {one.image_id for one in self.machines().values()})

    def test_a_rollback_has_a_deadline_and_keeps_the_first_cause(self):
        cluster = self.created(group(2))
        nodes = self.nodes(cluster)
        upgrade = self.failing(cluster, group(2, machine=NEW), doomed=[nodes[0].id], within_s=0.3)
        ended = self.ended(upgrade)
        self.assertEqual((OperationState.FAILED, 'deadline'), (ended.state, ended.cause.code))
        self.assertIn('Cannot undo the upgrade', ended.cause.message)
        self.assertIn('Cannot upgrade', ended.cause.because.message)

    def test_without_the_rollback_option_it_fails_in_place(self):
        cluster = self.created(group(2))
        ended = self.ended(self.failing(cluster, group(3), rollback=False))
        self.assertIs(OperationState.FAILED, ended.state)
        self.assertEqual(2, self.store.clusters.get(cluster.id).generation)

    def test_without_an_earlier_success_there_is_no_rollback(self):
        self.fault('build:error')
        cluster, creation = self.create(group(2), within_s=0.2)
        self.ended(creation)
        ended = self.ended(self.failing(cluster, group(3), within_s=0.2))
        self.assertIs(OperationState.FAILED, ended.state)

    def test_a_new_owner_continues_a_rollback(self):
        cluster = self.created(group(2))
        self.fault('build:hang_before:seconds=0.5')
        upgrade = self.failing(cluster, group(3, machine=NEW), within_s=2.0)
        self.turned_back(cluster)
        self.take_over()
        self.cloud.faults.clear()
        self.assertIs(OperationState.ROLLED_BACK, self.ended(upgrade).state)
        self.assert_whole(cluster, 2)

    def test_a_rollback_can_be_superseded(self):
        cluster = self.created(group(2))
        doomed = self.nodes(cluster)[0].id
        # What it has started takes a while to be deleted, and so does the rollback.
        self.fault('delete:hang:seconds=0.3')
        upgrade = self.failing(cluster, group(2, machine=NEW), doomed=[doomed])
        there = self.turned_back(cluster)
        self.assertFalse(self.store.operations.get(upgrade.id).state.ended)
        newer = self.operation(cluster.id, OperationKind.UPDATE)
        self.store.clusters.change(
            cluster.id, dataclasses.replace(there.spec, groups=(group(1),)),
            generation=there.generation, operation=newer, supersede=True,
        )  # fmt: skip
        self.cloud.faults.clear()
        self.succeeded(newer)
        self.assertIs(OperationState.CANCELLED, self.ended(upgrade).state)
        self.assert_whole(cluster, 1)


class Keeping(Plain):
    """Lets no node go."""

    def get_scale_manager(self, context, cluster):
        class Keep(DefaultScaleManager):
            def replacement_order(self, nodegroup, nodes):
                return ()

        return Keep(context, cluster)


class Kept(Site):
    driver = Keeping()

    def test_a_change_whose_nodes_are_all_ready_says_at_its_deadline_that_changes_are_left(self):
        strategy = Strategy(max_surge=Portion(0), max_unavailable=Portion(1))
        cluster = self.created(group(2, strategy=strategy))
        wanted = group(2, strategy=strategy, machine=NEW)
        ended = self.ended(self.change(cluster, wanted, kind=OperationKind.UPGRADE, within_s=1.5))
        self.assertEqual(
            'Cannot upgrade cluster web by its deadline: '
            'changes to its nodes are still to be made.',
            ended.cause.message,
        )
        self.assertEqual('held', ended.cause.because.code)


class Busy(Plain):
    """Its nodes have work until they are allowed to stop."""

    def __init__(self):
        self.work = True

    def drain(self, context, cluster, node):
        return Drained(not self.work, 'it has work')


class ByPin:
    """A site with two versions of a driver, which records what each has built."""

    def __init__(self):
        self.made = []

    def open(self, pin):
        made = self.made

        class Version(Plain):
            def bootstrap(self, context, cluster, node):
                made.append(pin.version)
                return super().bootstrap(context, cluster, node)

        return Version()


class Moved(Site):
    def test_000_4_a_failed_move_returns_the_cluster_to_its_former_driver(self):
        drivers = ByPin()
        self.conductor.close()
        self.parts = dataclasses.replace(self.parts, drivers=drivers)
        self.take_over()
        cluster = self.created(group(2))
        self.cloud.faults.add(Fault.parse('build:error'))
        upgrade = self.operation(cluster.id, OperationKind.UPGRADE, within_s=1.0, rollback=True)
        self.store.clusters.change(
            cluster.id, cluster.spec, generation=1, operation=upgrade,
            doomed={self.nodes(cluster)[0].id: 'asked for'},
            pin=dataclasses.replace(PIN, version='2.0.0'), decision={'steps': ['moved']},
        )  # fmt: skip
        self.conductor.wake()
        self.until(lambda: self.store.clusters.get(cluster.id).generation == 3)
        self.cloud.faults.clear()
        self.assertIs(OperationState.ROLLED_BACK, self.ended(upgrade).state)
        there = self.store.clusters.get(cluster.id)
        self.assertEqual((PIN, cluster.decision), (there.pin, there.decision))
        by_turns = [version for version, _ in itertools.groupby(drivers.made)]
        self.assertEqual(['1.0.0', '2.0.0', '1.0.0'], by_turns)
        self.assert_whole(cluster, 2)


class Pause(Site):
    def setUp(self):
        self.driver = Busy()
        super().setUp()

    def test_a_pause_starts_nothing_and_writes_the_results_under_way(self):
        self.fault('build:hang:seconds=0.2')
        cluster, operation = self.create(group(2))
        self.until(lambda: self.states(cluster)[NodeState.BUILDING] == 2)
        self.store.clusters.pause(cluster.id)
        self.until(lambda: self.states(cluster)[NodeState.BOOTING] == 2)
        self.until(lambda: not self.store.leases.get(cluster.id).owner)
        self.clock.sleep(0.1)
        self.assertEqual({NodeState.BOOTING: 2}, self.states(cluster))
        self.store.clusters.resume(cluster.id)
        self.succeeded(operation)
        self.assert_whole(cluster, 2)

    def test_a_deadline_does_not_expire_during_a_pause(self):
        self.fault('build:hang:seconds=0.2')
        cluster, operation = self.create(group(1), within_s=2.0)
        self.until(lambda: self.states(cluster)[NodeState.BUILDING])
        self.store.clusters.pause(cluster.id)
        self.clock.sleep(2.0)
        self.assertFalse(self.store.operations.get(operation.id).state.ended)
        self.store.clusters.resume(cluster.id)
        self.succeeded(operation)

    def test_a_cluster_resumed_before_its_release_continues(self):
        cluster = self.created(group(2))
        self.fault('delete:hang:seconds=0.4')
        self.driver.work = False
        operation = self.change(cluster, group(1), doomed=[self.nodes(cluster)[0].id])
        self.until(lambda: self.states(cluster)[NodeState.DELETING])
        self.store.clusters.pause(cluster.id)
        self.clock.sleep(0.15)
        self.assertTrue(self.store.leases.get(cluster.id).owner)
        self.store.clusters.resume(cluster.id)
        self.succeeded(operation)
        self.assert_whole(cluster, 1)

    def test_a_cancelled_operation_ends_during_a_pause(self):
        cluster = self.created(group(2))
        operation = self.change(cluster, group(1), doomed=[self.nodes(cluster)[0].id])
        self.until(lambda: self.states(cluster)[NodeState.DRAINING])
        self.store.clusters.pause(cluster.id)
        self.until(lambda: not self.store.leases.get(cluster.id).owner)
        self.store.operations.cancel(operation.id)
        self.assertIs(OperationState.CANCELLED, self.ended(operation).state)
        self.assertEqual({NodeState.READY: 1, NodeState.DRAINING: 1}, self.states(cluster))
