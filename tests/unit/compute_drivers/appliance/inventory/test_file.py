"""The inventory file can change at any time without losing a claim."""

import os

from kiln.compute_drivers.appliance.inventory.file import InventoryFile
from kiln.compute_drivers.authoring.machine_pool import Standing
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

    def test_an_unreadable_file_is_named(self):
        with self.assertRaisesRegex(ConfigurationError, 'nowhere: No such file'):
            InventoryFile(self.folder / 'nowhere', None)
        with self.assertRaisesRegex(ConfigurationError, 'Is a directory'):
            InventoryFile(self.folder, None)
        self.inventory.write_bytes(b'\xff\xfe')
        with self.assertRaisesRegex(ConfigurationError, 'it is not a text file'):
            InventoryFile(self.inventory, None)

    def test_the_error_of_an_unreadable_file_keeps_its_cause(self):
        for path, cause in (('nowhere', FileNotFoundError), ('.', IsADirectoryError)):
            with self.assertRaises(ConfigurationError) as caught:
                InventoryFile(self.folder / path, None)
            self.assertIsInstance(caught.exception.__cause__, cause)

    def test_a_world_writable_file_is_refused(self):
        self.inventory.touch()
        self.inventory.chmod(0o666)
        self.assertIn('chmod o-w', self.refused(pool(1)))

    def test_a_missing_program_is_a_mistake_with_its_line(self):
        said = self.refused(
            pool(1, each='reboot = ["/nowhere/reboot", "-f"]\nprobe = {command = ["/no/probe"]}\n')
        )
        self.assertEqual(
            [
                f'{self.inventory}:7: [machines.m1] reboot names /nowhere/reboot, which is not a '
                f'program executable here.',
                f'{self.inventory}:8: [machines.m1] probe names /no/probe, which is not a '
                f'program executable here.',
            ],
            said.splitlines()[1:],
        )

    def test_a_mistake_in_the_defaults_is_told_on_the_line_of_each_machine(self):
        said = self.refused(pool(2, defaults='reboot = ["/nowhere/reboot"]'))
        self.assertEqual(['5', '7'], [line.split(':')[1] for line in said.splitlines()[1:]])

    def test_the_programs_of_each_machine_are_looked_for(self):
        said = self.refused(pool(2, each='reboot = ["/nowhere/reboot"]\n'))
        self.assertEqual(2, said.count('/nowhere/reboot'), said)

    def test_a_secret_must_exist_and_be_readable_only_by_kiln(self):
        text = pool(1, each='credentials = "admin"\n')
        self.assertIn('needs the option secrets_dir', self.refused(text))
        self.assertIn('has no such secret', self.refused(text, self.folder))
        secret = self.folder / 'admin'
        secret.write_text('x')
        secret.chmod(0o640)
        self.assertIn('chmod 600', self.refused(text, self.folder))
        secret.chmod(0o600)
        self.assertEqual(secret, self.opened(text, self.folder).secret('admin'))

    def test_a_change_takes_effect_at_the_next_call(self):
        file = self.opened(pool(1))
        known = file.current
        self.assertIs(known, file.current)
        self.inventory.write_text(pool(3))
        with self.assertLogs('kiln', 'INFO') as logged:
            self.assertEqual(3, len(file.current.machines))
        self.assertIn('enrols 3 machines', logged.output[0])

    def test_later_mistakes_are_logged_once_and_the_previous_inventory_stays(self):
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
        """Replace the file as an editor does, with a later modification time."""
        fresh = self.inventory.with_suffix('.new')
        fresh.write_text(text)
        os.utime(fresh)
        fresh.replace(self.inventory)

    def test_a_claimed_machine_that_is_no_longer_enrolled_stays_known(self):
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
        self.assertIn('no longer in the inventory', gone.reason)
        self.assertEqual(('m9', Standing.FREE), (other.name, other.standing))
        driver.delete(amphora_id)
        self.assertEqual(['m9'], [one.name for one in driver.machines()])

    def test_a_machine_no_longer_enrolled_is_wiped_by_its_former_command(self):
        wipe = self.program('wipe', f'echo $KILN_MACHINE > {self.folder}/wiped')
        driver = self.open_driver(pool(1).replace('wipe = []', f'wipe = ["{wipe}"]'))
        amphora_id = driver.build(**METAL)
        self.rewrite('')
        driver.delete(amphora_id)
        self.until(lambda: not driver.machines())
        self.assertEqual('m1\n', (self.folder / 'wiped').read_text())

    def test_a_renamed_claimed_machine_is_not_claimed_again(self):
        driver = self.open_driver(pool(1))
        amphora_id = driver.build(**METAL)
        self.rewrite(pool(1).replace('machines.m1', 'machines.renamed'))
        with self.assertRaisesRegex(InsufficientCapacity, r'1 claimed \(renamed\)'):
            driver.build(**METAL)
        driver.delete(amphora_id)
        driver.build(**METAL)

    def test_an_edited_address_becomes_that_of_the_amphora(self):
        driver = self.open_driver(pool(1))
        amphora_id = driver.build(**METAL)
        self.rewrite(pool(1).replace('192.0.2.1', '192.0.2.77'))
        one = driver.get_amphora(amphora_id=amphora_id)
        self.assertEqual('192.0.2.77', one.addresses[0].address)

    def test_a_probe_removed_while_it_is_awaited_passes(self):
        driver = self.open_driver(pool(1, each='probe = {command = ["/bin/false"]}\n'))
        amphora_id = driver.build(**METAL)
        self.assertIs(State.BUILDING, driver.status(amphora_id).state)
        self.rewrite(pool(1))
        self.until(lambda: driver.status(amphora_id).state is State.ACTIVE)

    def test_a_removed_claim_command_fails_only_builds_with_data(self):
        claim = self.program('claim', 'exec sleep 600')
        driver = self.open_driver(pool(2, each=f'claim = ["{claim}"]\n'))
        locks = [self.lock(name) for name in ('m1', 'm2')]
        brings, bare = driver.build(user_data='#!', **METAL), driver.build(**METAL)
        self.rewrite(pool(2))
        with self.warned():
            for lock in locks:
                lock.close()
            self.until(lambda: driver.status(bare).state is State.ACTIVE)
            self.until(lambda: driver.status(brings).state is State.ERROR)
        self.assertIn('the inventory no longer has one', driver.status(brings).fault)

    def test_a_probe_added_to_active_machines_is_run_on_each(self):
        driver = self.open_driver(pool(2))
        for _ in range(2):
            driver.build(**METAL)
        self.rewrite(pool(2, each='probe = {command = ["/bin/false"]}\n'))

        def failed():
            said = [one.fault or '' for one in driver.list_amphorae()]
            return ['3 probes in a row failed' in fault for fault in said] == [True, True]

        with self.warned(step_s=1):
            self.until(failed, step_s=1)

    def test_a_file_with_mistakes_does_not_stop_the_pool_and_shows_in_the_check(self):
        driver = self.open_driver(pool(1))
        with self.assertLogs('kiln', 'ERROR'):
            self.rewrite('[machines.m1]\n')
            driver.build(**METAL)
        self.assertIn('1 machines, 1 claimed; the previous inventory stays', driver.check().detail)
