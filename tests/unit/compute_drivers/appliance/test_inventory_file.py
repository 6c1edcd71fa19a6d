"""The file of an inventory may change at any time, and no claim is lost by that."""

import os

from kiln.compute_drivers.appliance.inventory_file import InventoryFile
from kiln.compute_drivers.pools import Standing
from kiln.exceptions import ConfigurationError, InsufficientCapacity
from kiln.models import AmphoraType, State
from tests.unit.compute_drivers.appliance.samples import PoolCase, pool

METAL = {'amphora_type': AmphoraType.BARE_METAL}


class Files(PoolCase):
    def opened(self, text, secrets=None):
        self.inventory.write_text(text)
        return InventoryFile(self.inventory, secrets)

    def refused(self, text='', secrets=None):
        with self.assertRaises(ConfigurationError) as caught:
            self.opened(text, secrets)
        return str(caught.exception)

    def test_a_file_that_cannot_be_read_is_named(self):
        with self.assertRaisesRegex(ConfigurationError, 'nowhere: No such file'):
            InventoryFile(self.folder / 'nowhere', None)
        with self.assertRaisesRegex(ConfigurationError, 'Is a directory'):
            InventoryFile(self.folder, None)
        self.inventory.write_bytes(b'\xff\xfe')
        with self.assertRaisesRegex(ConfigurationError, 'it is no text'):
            InventoryFile(self.inventory, None)

    def test_a_file_that_everybody_may_write_is_refused(self):
        self.inventory.touch()
        self.inventory.chmod(0o666)
        self.assertIn('chmod o-w', self.refused(pool(1)))

    def test_a_program_that_is_not_there_is_a_mistake_with_a_line(self):
        said = self.refused(
            pool(1, each='reboot = ["/nowhere/reboot", "-f"]\nprobe = {command = ["/no/probe"]}\n')
        )
        self.assertEqual(
            [
                f'{self.inventory}:7: [machines.m1] reboot names /nowhere/reboot, which is no '
                f'program that can be run here.',
                f'{self.inventory}:8: [machines.m1] probe names /no/probe, which is no program '
                f'that can be run here.',
            ],
            said.splitlines()[1:],
        )

    def test_a_secret_must_be_there_and_for_kiln_alone(self):
        text = pool(1, each='credentials = "admin"\n')
        self.assertIn('needs the option secrets_dir', self.refused(text))
        self.assertIn('has no such secret', self.refused(text, self.folder))
        secret = self.folder / 'admin'
        secret.write_text('x')
        secret.chmod(0o640)
        self.assertIn('chmod 600', self.refused(text, self.folder))
        secret.chmod(0o600)
        self.assertEqual(secret, self.opened(text, self.folder).secret('admin'))

    def test_a_change_is_seen_by_the_next_look(self):
        file = self.opened(pool(1))
        known = file.current
        self.assertIs(known, file.current)
        self.inventory.write_text(pool(3))
        with self.assertLogs('kiln', 'INFO') as logged:
            self.assertEqual(3, len(file.current.machines))
        self.assertIn('enrols 3 machines', logged.output[0])

    def test_what_becomes_wrong_is_told_once_and_the_last_that_was_right_holds(self):
        file = self.opened(pool(2))
        for wrong in (lambda: self.inventory.write_text('machines = 7'), self.inventory.unlink):
            wrong()
            with self.assertLogs('kiln', 'ERROR') as logged:
                self.assertEqual(2, len(file.current.machines))
                self.assertEqual(2, len(file.current.machines))
            self.assertEqual(1, len(logged.output))
            self.assertIsNotNone(file.trouble)
        self.inventory.write_text(pool(1))
        self.inventory.chmod(0o666)
        with self.assertLogs('kiln', 'ERROR'):
            self.assertEqual(2, len(file.current.machines))
        self.inventory.chmod(0o644)
        self.assertEqual(1, len(file.current.machines))
        self.assertIsNone(file.trouble)


class Editing(PoolCase):
    def rewrite(self, text):
        """Replace it as an editor does, and never with the time of the one before."""
        fresh = self.inventory.with_suffix('.new')
        fresh.write_text(text)
        os.utime(fresh)
        fresh.replace(self.inventory)

    def test_a_claimed_machine_that_is_gone_stays_known_and_is_said_to_be_gone(self):
        driver = self.open_driver(pool(2, each='zone = "az1"\n'))
        amphora_id = driver.build(name='web', **METAL)
        self.rewrite(pool(1).replace('m1', 'm9').replace('2.1', '2.9'))
        one = driver.get_amphora('web', amphora_id)
        self.assertEqual((State.ACTIVE, '192.0.2.1'), (one.state, one.addresses[0].address))
        self.assertFalse(one.raw['enrolled'])
        gone, other = driver.machines()
        self.assertEqual(
            ('m1', False, Standing.CLAIMED), (gone.name, gone.enrolled, gone.standing)
        )
        self.assertIn('gone from the inventory', gone.reason)
        self.assertEqual(('m9', Standing.FREE), (other.name, other.standing))
        driver.delete(amphora_id)
        self.assertEqual(['m9'], [one.name for one in driver.machines()])

    def test_one_that_is_gone_is_wiped_by_the_command_it_had(self):
        wipe = self.program('wipe', f'echo $KILN_MACHINE > {self.folder}/wiped')
        driver = self.open_driver(pool(1).replace('wipe = []', f'wipe = ["{wipe}"]'))
        amphora_id = driver.build(**METAL)
        self.rewrite('')
        driver.delete(amphora_id)
        self.until(lambda: not driver.machines())
        self.assertEqual('m1\n', (self.folder / 'wiped').read_text())

    def test_a_claimed_machine_under_another_name_is_not_claimed_again(self):
        driver = self.open_driver(pool(1))
        amphora_id = driver.build(**METAL)
        self.rewrite(pool(1).replace('machines.m1', 'machines.renamed'))
        with self.assertRaisesRegex(InsufficientCapacity, r'1 claimed \(renamed\)'):
            driver.build(**METAL)
        driver.delete(amphora_id)
        driver.build(**METAL)

    def test_an_address_that_is_edited_is_that_of_the_amphora(self):
        driver = self.open_driver(pool(1))
        amphora_id = driver.build(**METAL)
        self.rewrite(pool(1).replace('192.0.2.1', '192.0.2.77'))
        one = driver.get_amphora(amphora_id=amphora_id)
        self.assertEqual('192.0.2.77', one.addresses[0].address)

    def test_a_probe_that_is_taken_away_while_it_is_waited_for_passes(self):
        driver = self.open_driver(pool(1, each='probe = {command = ["/bin/false"]}\n'))
        amphora_id = driver.build(**METAL)
        self.assertIs(State.BUILDING, driver.status(amphora_id).state)
        self.rewrite(pool(1))
        self.until(lambda: driver.status(amphora_id).state is State.ACTIVE)

    def test_a_claim_command_that_is_taken_away_fails_only_who_brings_something(self):
        claim = self.program('claim', 'exec sleep 600')
        driver = self.open_driver(pool(2, each=f'claim = ["{claim}"]\n'))
        locks = [driver._locks.take(name) for name in ('m1', 'm2')]
        brings, bare = driver.build(user_data='#!', **METAL), driver.build(**METAL)
        self.rewrite(pool(2))
        with self.warned():
            for lock in locks:
                lock.release()
            self.until(lambda: driver.status(bare).state is State.ACTIVE)
            self.until(lambda: driver.status(brings).state is State.ERROR)
        self.assertIn('has none any more', driver.status(brings).fault)

    def test_a_probe_that_is_given_to_a_machine_that_serves_is_made(self):
        driver = self.open_driver(pool(2))
        amphora_id = driver.build(**METAL)
        self.rewrite(pool(1, each='probe = {command = ["/bin/false"]}\n'))
        with self.warned(step_s=1):
            self.until(lambda: driver.status(amphora_id).state is State.ERROR, step_s=1)
        self.assertIn('3 probes in a row failed', driver.status(amphora_id).fault)

    def test_a_file_with_mistakes_does_not_stop_the_pool_and_the_check_tells_of_it(self):
        driver = self.open_driver(pool(1))
        with self.assertLogs('kiln', 'ERROR'):
            self.rewrite('[machines.m1]\n')
            driver.build(**METAL)
        self.assertIn('1 machines, 1 claimed; the inventory is used', driver.check().detail)
