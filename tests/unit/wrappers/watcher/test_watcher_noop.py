"""The watcher on the simulated cloud."""

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import InstanceNotFoundError, InsufficientCapacity
from kiln.models import State
from tests.unit.wrappers.watcher.watching import WatchingTest


class NoopTest(WatchingTest):
    def make_driver(self):
        self.cloud = NoopCloud(clock=self.clock, build_s=30, delete_s=5, reboot_s=20, seed=1)
        return NoopDriver(cloud=self.cloud)

    def test_a_fleet_is_reported_active_soon_after_it_is(self):
        waits = [
            self.watcher.watch(self.driver.build(name=f'n{i}'), {State.ACTIVE}) for i in range(500)
        ]
        self.until(lambda: all(wait.done() for wait in waits))
        self.assertTrue(all(wait.result().ready for wait in waits))
        self.assertTrue(30 <= self.clock.monotonic() <= 45, self.clock.monotonic())

    def test_a_deleted_fleet_is_reported_gone(self):
        ids = [self.driver.build(name=f'n{i}') for i in range(50)]
        waits = [self.watcher.watch(one, {State.STOPPED}) for one in ids]
        gone = [self.watcher.watch_gone(one) for one in ids]
        self.until(lambda: all(map(self.watcher.latest, ids)))
        for one in ids:
            self.driver.delete(one)
        self.until(lambda: all(future.done() for future in waits + gone))
        self.assertEqual({InstanceNotFoundError}, {type(one.exception()) for one in waits})
        self.assertEqual({None}, {one.result() for one in gone})

    def test_a_build_without_room_fails_with_insufficient_capacity(self):
        self.cloud.faults.add(Fault(action='error', call='build', text='No valid host was found.'))
        wait = self.watcher.watch(self.driver.build(), {State.ACTIVE})
        self.assertIsInstance(self.settled_error(wait), InsufficientCapacity)

    def test_a_hard_reboot_out_of_error_is_awaited(self):
        self.cloud.faults.add(Fault(action='error', call='build', times=1))
        amphora_id = self.driver.build()
        self.assertIsNotNone(self.settled_error(self.watcher.watch(amphora_id, {State.ACTIVE})))
        self.driver.reboot(amphora_id, hard=True)
        self.assertTrue(self.settle(self.watcher.watch(amphora_id, {State.ACTIVE})).ready)

    def test_lagging_lists_make_no_amphora_vanish(self):
        self.cloud.faults.add(Fault(action='stale_list', call='changes', seconds=10))
        waits = [
            self.watcher.watch(self.driver.build(name=f'n{i}'), {State.ACTIVE}) for i in range(50)
        ]
        self.until(lambda: all(wait.done() for wait in waits))
        self.assertTrue(all(wait.result().ready for wait in waits))
