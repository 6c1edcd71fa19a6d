"""What an operator does with the machines of a pool: maintenance, and release."""

from kiln.compute_drivers.authoring.machine_pool import Standing
from kiln.exceptions import (
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidRequest,
    ResourceNotFoundError,
)
from kiln.models import AmphoraType, State
from tests.unit.compute_drivers.appliance.samples import PoolCase, pool

METAL = {'amphora_type': AmphoraType.BARE_METAL}


class Operating(PoolCase):
    def standing(self, driver, name='m1'):
        return next(one for one in driver.machines() if one.name == name)

    def released(self, driver):
        try:
            driver.release('m1')
        except InstanceStateConflict as exc:
            # The command has ended, and will release its machine in a moment.
            self.assertTrue(exc.retryable)
            return False
        return True

    def test_a_machine_in_maintenance_is_not_claimed_and_its_reason_is_shown(self):
        driver = self.open_driver(pool(1))
        driver.maintain('m1', 'a fan')
        one = self.standing(driver)
        self.assertEqual((Standing.MAINTENANCE, 'a fan'), (one.standing, one.reason))
        with self.assertRaisesRegex(InsufficientCapacity, '1 in maintenance'):
            driver.build(**METAL)
        driver.maintain('m1', None)
        self.assertIs(Standing.FREE, self.standing(driver).standing)
        driver.build(**METAL)

    def test_nothing_is_run_on_a_machine_in_maintenance(self):
        wipe = self.program('wipe', 'true')
        text = pool(1).replace('wipe = []', f'wipe = ["{wipe}"]')
        driver = self.open_driver(text)
        amphora_id = driver.build(**METAL)
        driver.maintain('m1', 'a fan')
        driver.delete(amphora_id)
        looked = self.clock.monotonic()
        self.until(lambda: self.clock.monotonic() > looked + 20)
        self.assertIs(State.DELETING, driver.status(amphora_id).state)
        driver.maintain('m1', None)
        self.until(lambda: self.standing(driver).standing is Standing.FREE)

    def test_maintenance_set_in_the_inventory_is_ended_only_there(self):
        driver = self.open_driver(pool(1, each='maintenance = "a fan"\n'))
        with self.assertRaisesRegex(InvalidRequest, 'Remove it there') as caught:
            driver.maintain('m1', None)
        self.assertEqual('m1', caught.exception.resource_id)
        # A reason of its own counts once that of the inventory is gone.
        driver.maintain('m1', 'a cable')
        self.assertEqual('a fan', self.standing(driver).reason)
        self.inventory.write_text(pool(1))
        self.assertEqual('a cable', self.standing(driver).reason)
        driver.maintain('m1', None)
        self.assertIs(Standing.FREE, self.standing(driver).standing)

    def test_a_manually_wiped_machine_is_released(self):
        wipe = self.program('wipe', 'exit 1')
        driver = self.open_driver(pool(1).replace('wipe = []', f'wipe = ["{wipe}"]'))
        amphora_id = driver.build(**METAL)
        with self.assertRaisesRegex(
            InstanceStateConflict, f'it is in use as amphora {amphora_id}'
        ) as caught:
            driver.release('m1')
        self.assertEqual(amphora_id, caught.exception.amphora_id)
        driver.delete(amphora_id)
        with self.warned():
            self.until(lambda: self.standing(driver).standing is Standing.UNWIPED)
        self.until(lambda: self.released(driver))
        self.assertIs(Standing.FREE, self.standing(driver).standing)
        with self.assertRaises(InstanceNotFoundError):
            driver.status(amphora_id)
        driver.release('m1')

    def test_a_machine_that_left_the_inventory_is_released_like_any_other(self):
        wipe = self.program('wipe', 'exit 1')
        driver = self.open_driver(pool(1).replace('wipe = []', f'wipe = ["{wipe}"]'))
        amphora_id = driver.build(**METAL)
        self.inventory.write_text('')
        with self.assertRaisesRegex(InstanceStateConflict, 'it is in use as amphora'):
            driver.release('m1')
        driver.delete(amphora_id)
        with self.warned():
            self.until(lambda: self.standing(driver).standing is Standing.UNWIPED)
        self.until(lambda: self.released(driver))
        self.assertEqual((), driver.machines())

    def test_a_machine_on_which_a_command_runs_is_not_released(self):
        driver = self.open_driver(pool(1))
        lock = self.lock('m1')
        self.addCleanup(lock.close)
        with self.assertRaisesRegex(InstanceStateConflict, 'a command runs on it now') as caught:
            driver.release('m1')
        self.assertEqual(('m1', True), (caught.exception.resource_id, caught.exception.retryable))

    def test_a_release_ends_a_quarantine(self):
        claim = self.program('claim', 'exit 1')
        driver = self.open_driver(pool(1, each=f'claim = ["{claim}"]\n'))
        amphora_id = driver.build(**METAL)
        with self.warned():
            self.until(lambda: driver.status(amphora_id).state is State.ERROR)
        driver.delete(amphora_id)
        self.assertIs(Standing.QUARANTINE, self.standing(driver).standing)
        self.until(lambda: self.released(driver))
        self.assertIs(Standing.FREE, self.standing(driver).standing)

    def test_an_unknown_machine_is_named(self):
        driver = self.open_driver(pool(1))
        for ask in (driver.release, lambda name: driver.maintain(name, 'why')):
            with self.assertRaisesRegex(ResourceNotFoundError, "'m9'") as caught:
                ask('m9')
            self.assertEqual('m9', caught.exception.resource_id)
