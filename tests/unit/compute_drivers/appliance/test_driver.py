"""The appliance driver: what it opens, reports and can do, and its work in the background."""

import contextlib
import dataclasses
import json
import sqlite3
import stat
import threading

from oslo_config import cfg

from kiln.compute_drivers.appliance.claims.state_machine import Rules
from kiln.compute_drivers.appliance.conf import opts
from kiln.compute_drivers.authoring.machine_pool import Standing
from kiln.exceptions import (
    ConfigurationError,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    ServiceUnavailable,
    UnsupportedOperation,
    Verdict,
)
from kiln.models import Ability, AmphoraType, State
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.appliance.samples import PoolCase, options_of, pool

METAL = {'amphora_type': AmphoraType.BARE_METAL}
SECRET = 'correct-horse-battery-staple'  # planted, and searched for afterwards


class Opening(PoolCase):
    def test_opening_starts_nothing(self):
        before = threading.active_count()
        driver = self.open_driver(pool(2))
        self.assertEqual(2, len(driver.machines()))
        self.assertEqual(before, threading.active_count())

    def test_the_first_call_starts_the_work_and_closing_ends_it(self):
        before = threading.active_count()
        driver = self.open_driver(pool(2))
        list(driver.list_amphorae())
        self.assertGreaterEqual(driver.check().latency_s, 0.0)
        (crew,) = [one for one in threading.enumerate() if one.name == 'kiln-appliance']
        self.assertTrue(crew.daemon, 'a process that forgets to close it ends all the same')
        self.assertEqual(before + 1, threading.active_count())
        driver.close()
        self.assertEqual(before, threading.active_count())
        driver.close()

    def test_a_call_ends_by_its_deadline_while_another_process_keeps_the_claims_locked(self):
        driver = self.open_driver(pool(2))
        kept = driver.build(**METAL)
        path = self.folder / 'state' / 'claims.db'
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute('BEGIN EXCLUSIVE')
            with self.assertRaisesRegex(ServiceUnavailable, 'locked') as caught:
                driver.build(**METAL, build_key='K', timeout=0.001)
            self.assertEqual('K', caught.exception.build_key)
            with self.assertRaisesRegex(ServiceUnavailable, 'locked') as caught:
                driver.delete(kept, timeout=0.001)
            self.assertEqual(kept, caught.exception.amphora_id)
            self.assertIs(State.ACTIVE, driver.status(kept).state)
        driver.delete(kept)
        self.assertTrue(driver.build(**METAL, build_key='K'))

    def test_a_missing_option_is_named(self):
        for option in ('inventory', 'state_dir'):
            self.inventory.write_text('')
            given = {'inventory': str(self.inventory), 'state_dir': str(self.folder)}
            with self.assertRaisesRegex(ConfigurationError, f'option {option} is not set'):
                type(self).open_with(options_of(**{**given, option: None}))

    def test_one_probe_or_worker_can_be_enough_and_none_is_refused(self):
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        conf.register_opts(opts, 'pool')
        for name in ('probe_failures', 'probe_successes', 'command_workers', 'probe_workers'):
            conf.set_override(name, 1, 'pool')
            self.assertEqual(1, conf.pool[name])
            with self.assertRaises(ValueError):
                conf.set_override(name, 0, 'pool')
        for name in ('command_workers', 'probe_workers'):
            with self.assertRaises(ValueError):
                conf.set_override(name, 257, 'pool')
        for name in ('claim_timeout', 'wipe_timeout', 'command_timeout', 'console_timeout'):
            with self.assertRaises(ValueError):
                conf.set_override(name, 0.0, 'pool')

    @staticmethod
    def open_with(options):
        from kiln.compute_drivers.appliance.driver import ApplianceDriver

        return ApplianceDriver(options)

    def test_an_unusable_state_directory_is_named(self):
        self.inventory.write_text('')
        options = options_of(
            inventory=str(self.inventory), state_dir=str(self.inventory / 'state')
        )
        with self.assertRaisesRegex(ConfigurationError, 'Cannot keep claims in') as caught:
            self.open_with(options)
        self.assertIsInstance(caught.exception.__cause__, OSError)

    def test_its_directory_is_made_with_those_above_it(self):
        state_dir = self.folder / 'far' / 'away' / 'state'
        self.inventory.write_text('')
        driver = self.open_with(
            options_of(inventory=str(self.inventory), state_dir=str(state_dir))
        )
        self.addCleanup(driver.close)
        self.assertTrue((state_dir / 'locks').is_dir())

    def test_its_directory_is_accessible_only_to_kiln(self):
        self.open_driver(pool(1))
        for path in (self.folder / 'state', self.folder / 'state' / 'run'):
            self.assertEqual(0o700, stat.S_IMODE(path.stat().st_mode))

    def test_the_options_default_to_the_rules_and_refuse_no_time_at_all(self):
        defaults = {opt.dest: opt.default for opt in opts}
        for field in dataclasses.fields(Rules):
            self.assertEqual(field.default, defaults[field.name.removesuffix('_s')], field.name)
        self.assertEqual((8, 8), (defaults['command_workers'], defaults['probe_workers']))
        for opt in opts:
            self.assertTrue(opt.help, opt.name)
            if isinstance(opt, cfg.FloatOpt):
                with self.assertRaises(ValueError, msg=opt.name):
                    opt.type(0.0)


class Looking(PoolCase):
    """What is reported is what holds now."""

    def test_a_check_says_how_many_machines_are_claimed_each_time(self):
        driver = self.open_driver(pool(2))
        self.assertEqual('2 machines, 0 claimed', driver.check().detail)
        driver.build(**METAL)
        self.assertEqual('2 machines, 1 claimed', driver.check().detail)

    def test_a_check_says_how_long_it_took(self):
        class Slow(VirtualClock):
            def monotonic(self):
                self.advance(0.5)
                return super().monotonic()

        self.assertGreater(self.open_driver(pool(1), clock=Slow()).check().latency_s, 0.0)

    def test_amphorae_are_listed_oldest_first(self):
        driver, made = self.open_driver(pool(5)), []
        for _ in range(5):
            made.append(driver.build(**METAL))
            self.clock.advance(1.0)
        self.assertEqual(made, [one.id for one in driver.list_amphorae()])

    def test_changes_are_told_since_the_cursor_before(self):
        driver = self.open_driver(pool(2))
        driver.build(**METAL)
        first = driver.changes()
        self.assertEqual((1, True), (len(first.statuses), first.complete))
        second = driver.changes(first.cursor)
        self.assertEqual(((), False), (second.statuses, second.complete))

    def test_statuses_are_read_each_time(self):
        driver = self.open_driver(pool(2))
        ids = [driver.build(**METAL) for _ in range(2)]
        self.assertEqual(set(ids), {one.amphora_id for one in driver.statuses(ids).values()})
        driver.delete(ids[0])
        self.assertEqual({ids[1]}, set(driver.statuses(ids)))


class Able(PoolCase):
    def test_abilities_follow_the_commands_of_the_machines(self):
        driver = self.open_driver(pool(2))
        by_command = {Ability.REBOOT, Ability.REBUILD, Ability.CONSOLE_LOG}
        self.assertEqual(set(), by_command & driver.abilities)
        self.assertLessEqual({Ability.VALIDATE_ZONE, Ability.LIST_ZONES}, driver.abilities)
        self.inventory.write_text(pool(2, each='reboot = ["/bin/true"]\n'))
        self.assertEqual({Ability.REBOOT}, by_command & driver.abilities)

    def test_a_machine_without_the_command_is_refused_by_name(self):
        text = pool(1) + '[machines.other]\naddresses = ["192.0.2.9"]\nreboot = ["/bin/true"]\n'
        driver = self.open_driver(text)
        amphora_id = driver.build(**METAL)
        said = 'machine m1 has no reboot command'
        with self.assertRaisesRegex(UnsupportedOperation, said) as caught:
            driver.reboot(amphora_id)
        self.assertEqual(amphora_id, caught.exception.amphora_id)

    def test_limits_follow_the_types_and_claim_commands_of_the_machines(self):
        driver = self.open_driver(pool(1))
        self.assertEqual({AmphoraType.BARE_METAL}, driver.limits.amphora_types)
        with self.assertRaisesRegex(InvalidBuildRequest, 'does not support user_data'):
            driver.build(user_data='#!', **METAL)
        self.assertEqual(Standing.FREE, driver.machines()[0].standing)
        self.inventory.write_text(pool(1, each='claim = ["/bin/true"]\n'))
        driver.build(user_data='#!', **METAL)

    def test_zones_flavors_and_images_are_those_of_the_inventory(self):
        each = 'zone = "az1"\nflavors = ["small"]\nimages = ["v1"]\n'
        driver = self.open_driver(pool(1, each=each))
        self.assertEqual(('az1',), driver.list_zones())
        self.inventory.write_text(pool(1))
        self.assertEqual((), driver.list_zones())
        with self.assertRaisesRegex(InvalidRequest, 'Known: none.'):
            driver.validate_zone('az1')
        self.inventory.write_text(pool(1, each=each))
        driver.validate_zone('az1')
        driver.validate_flavor('small')
        driver.validate_image('v1')
        for ask, known in (
            (driver.validate_zone, 'az1'),
            (driver.validate_flavor, 'small'),
            (driver.validate_image, 'v1'),
        ):
            sentence = f'no machine of the inventory has it. Known: {known}.'
            with self.assertRaisesRegex(InvalidRequest, sentence) as caught:
                ask('other')
            self.assertEqual('other', caught.exception.resource_id)

    def test_an_amphora_is_described_by_its_machine(self):
        driver = self.open_driver(pool(1, each='zone = "az1"\nflavors = ["small"]\n'))
        one = driver.get_amphora(amphora_id=driver.build(name='web', **METAL))
        self.assertEqual(('web', 'small', 'az1'), (one.name, one.flavor, one.availability_zone))
        self.assertEqual(['192.0.2.1'], [address.address for address in one.addresses])
        self.assertEqual(('m1', True), (one.raw['machine'], one.raw['enrolled']))


class Working(PoolCase):
    """The input of commands, and what follows from their results."""

    def state(self, driver, amphora_id):
        try:
            return driver.status(amphora_id).state
        except InstanceNotFoundError:
            return None

    def open_commanded(self, more='', count=1, **programs):
        each = more + ''.join(
            f'{verb} = ["{self.program(verb, body)}"]\n' for verb, body in programs.items()
        )
        text = pool(count, each=each)
        if 'wipe' in programs:
            text = text.replace('wipe = []', '', 1)
        return self.open_driver(text)

    def built(self, driver, state=State.ACTIVE, **given):
        amphora_id = driver.build(**{**METAL, **given})
        self.until(lambda: self.state(driver, amphora_id) is state)
        return amphora_id

    def test_a_claim_command_finds_the_input_of_the_build_and_none_of_it_stays(self):
        seen = self.folder / 'seen'
        body = f'mkdir {seen}; cp -p * {seen}; env > {seen}/env; ls -ld . > {seen}/ls'
        driver = self.open_commanded(claim=body, more='labels = {rack = "r12"}\n')
        # What a process that was killed can have left.
        for what in ('reboot', 'probe'):
            (self.folder / 'state' / 'run' / f'm1.{what}').mkdir()
        amphora_id = self.built(
            driver, user_data=SECRET, keys=['ssh-ed25519 AAAA me'], build_key='k1',
            config_drive_files={'/etc/key.pem': (SECRET, 0o600, 'root')}, image_id='v1',
        )  # fmt: skip
        self.assertEqual(SECRET, (seen / 'user_data').read_text())
        self.assertEqual('ssh-ed25519 AAAA me\n', (seen / 'authorized_keys').read_text())
        (listed,) = json.loads((seen / 'files.json').read_text())
        self.assertEqual(('/etc/key.pem', '0600'), (listed['path'], listed['mode']))
        self.assertEqual(SECRET, (seen / listed['source']).read_text())
        for path in seen.glob('*'):
            if path.name not in ('env', 'ls'):
                self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode), path.name)
        self.assertTrue((seen / 'ls').read_text().startswith('drwx------'))
        env = dict(line.partition('=')[::2] for line in (seen / 'env').read_text().splitlines())
        self.assertEqual(('claim', 'm1', '192.0.2.1', 'k1', amphora_id, 'v1'), tuple(
            env[f'KILN_{name}']
            for name in ('VERB', 'MACHINE', 'ADDRESS', 'BUILD_KEY', 'AMPHORA_ID', 'IMAGE')
        ))  # fmt: skip
        self.assertEqual({'rack': 'r12'}, json.loads(env['KILN_LABELS']))
        self.assertNotIn(SECRET, (seen / 'env').read_text())
        self.assertEqual([], list((self.folder / 'state' / 'run').iterdir()))
        for path in (self.folder / 'state').rglob('*'):
            if path.is_file():
                self.assertNotIn(SECRET.encode(), path.read_bytes(), path.name)

    def test_a_failed_claim_command_is_an_error_and_quarantines_its_machine(self):
        driver = self.open_commanded(claim='cat user_data; echo no disk; exit 3', count=2)
        with self.warned() as logged:
            failed = self.built(driver, State.ERROR, user_data=SECRET)
        status = driver.status(failed)
        self.assertIn('claim command: it ended with status 3', status.fault)
        self.assertEqual('build_error', status.fault_code)
        self.assertNotIn(SECRET, status.fault + ''.join(logged.output))
        driver.delete(failed)
        one, other = driver.machines()
        self.assertEqual((Standing.QUARANTINE, Standing.FREE), (one.standing, other.standing))
        self.assertIn('status 3', one.reason)
        self.assertAlmostEqual(60.0, one.until - self.clock.time(), delta=5)
        with self.assertRaisesRegex(InsufficientCapacity, '1 in quarantine'):
            for _ in range(2):
                driver.build(**METAL)

    def test_a_machine_is_wiped_before_it_is_free(self):
        gate = self.folder / 'go'
        driver = self.open_commanded(wipe=f'while ! test -e {gate}; do sleep 0.01; done')
        amphora_id = self.built(driver)
        driver.delete(amphora_id)
        self.assertIs(State.DELETING, driver.status(amphora_id).state)
        with self.assertRaisesRegex(InsufficientCapacity, '1 claimed'):
            driver.build(**METAL)
        gate.touch()
        self.until(lambda: self.state(driver, amphora_id) is None)
        self.assertNotEqual(amphora_id, driver.build(**METAL))

    def test_a_failed_wipe_keeps_the_machine_and_is_retried(self):
        gate = self.folder / 'go'
        driver = self.open_commanded(wipe=f'echo not now; test -e {gate}')
        amphora_id = self.built(driver)
        with self.warned():
            driver.delete(amphora_id)
            self.until(lambda: self.state(driver, amphora_id) is State.ERROR)
        fault = driver.status(amphora_id).fault
        self.assertEqual('wipe command failed once, last: it ended with status 1: not now', fault)
        (one,) = driver.machines()
        self.assertEqual((Standing.UNWIPED, fault), (one.standing, one.reason))
        gate.touch()
        self.until(lambda: self.state(driver, amphora_id) is None, step_s=5)
        self.assertIs(Standing.FREE, driver.machines()[0].standing)

    def test_a_delete_ends_the_running_claim_command(self):
        driver = self.open_commanded(claim='touch begun; exec sleep 600', wipe='true')
        amphora_id = driver.build(**METAL)
        begun = self.folder / 'state' / 'run' / 'm1.claim' / 'begun'
        self.until(begun.exists)
        driver.delete(amphora_id)
        self.until(lambda: self.state(driver, amphora_id) is None)

    def test_a_reboot_command_learns_if_it_is_hard_and_can_fail(self):
        driver = self.open_commanded(
            reboot=f'echo $KILN_HARD >> {self.folder}/hard; '
            f'until test -e {self.folder}/on; do sleep 0.01; done; test $KILN_HARD = 1'
        )
        amphora_id = self.built(driver)
        driver.reboot(amphora_id, hard=True)
        self.assertEqual('rebooting', driver.status(amphora_id).task_state)
        with self.assertRaises(InstanceStateConflict):
            driver.reboot(amphora_id)
        (self.folder / 'on').touch()
        self.until(lambda: driver.status(amphora_id).ready)
        with self.warned():
            driver.reboot(amphora_id)
            self.until(lambda: self.state(driver, amphora_id) is State.ERROR)
        self.assertEqual('1\n0\n', (self.folder / 'hard').read_text())
        self.assertIsNone(driver.status(amphora_id).fault_code)

    def test_a_rebuild_takes_an_image_of_the_machine(self):
        driver = self.open_commanded(
            rebuild=f'echo $KILN_IMAGE > {self.folder}/image', more='images = ["v1", "v2"]\n'
        )
        amphora_id = self.built(driver, image_id='v1')
        with self.assertRaisesRegex(InvalidRequest, 'takes v1, v2') as caught:
            driver.rebuild(amphora_id, image_id='v3')
        self.assertEqual(amphora_id, caught.exception.amphora_id)
        for image in ('v2', None):
            driver.rebuild(amphora_id, image_id=image)
            self.until(lambda: driver.status(amphora_id).ready)
            self.assertEqual('v2\n', (self.folder / 'image').read_text())

    def test_a_machine_without_a_list_is_rebuilt_from_any_image(self):
        driver = self.open_commanded(rebuild='true')
        driver.rebuild(self.built(driver), image_id='v9')

    def test_each_failure_doubles_the_quarantine_up_to_its_maximum(self):
        claim = self.program('claim', 'exit 1')
        driver = self.open_driver(pool(1, each=f'claim = ["{claim}"]\n'), quarantine_max=70.0)
        for seconds in (60.0, 70.0):
            with self.warned():
                failed = self.built(driver, State.ERROR)
            driver.delete(failed)
            (one,) = driver.machines()
            self.assertAlmostEqual(seconds, one.until - self.clock.time(), delta=5)
            self.clock.advance(seconds)

    def test_a_console_is_the_output_of_its_command(self):
        driver = self.open_commanded(console='echo one; echo two; test ! -e stop')
        amphora_id = self.built(driver)
        self.assertEqual('one\ntwo\n', driver.console_log(amphora_id))
        self.assertEqual('two', driver.console_log(amphora_id, lines=1))
        self.program('console', 'echo three')
        self.assertEqual('three\n', driver.console_log(amphora_id))
        self.assertEqual([], list((self.folder / 'state' / 'output').glob('*console*')))

    def test_a_failed_console_command_is_reported(self):
        driver = self.open_commanded(console='echo no cable; exit 1')
        amphora_id = self.built(driver)
        with self.assertRaisesRegex(ServiceUnavailable, 'machine m1: .*no cable') as caught:
            driver.console_log(amphora_id)
        # It is about one machine, not about the pool.
        self.assertIs(Verdict.NEUTRAL, caught.exception.circuit)
        self.assertEqual(amphora_id, caught.exception.amphora_id)

    def test_a_probe_can_be_a_command_and_its_failures_are_reported(self):
        up = self.folder / 'up'
        probe = self.program('probe', f'echo asked $KILN_ADDRESS; test -e {up}')
        driver = self.open_driver(pool(1, each=f'probe = {{command = ["{probe}"]}}\n'))
        news = threading.Event()
        driver.on_news(news.set)
        amphora_id = driver.build(**METAL)
        self.assertIs(State.BUILDING, driver.status(amphora_id).state)
        up.touch()
        self.until(lambda: self.state(driver, amphora_id) is State.ACTIVE)
        self.assertTrue(news.is_set())
        up.unlink()
        with self.warned():
            self.until(lambda: self.state(driver, amphora_id) is State.ERROR, step_s=2)
        self.assertIn('asked 192.0.2.1', driver.status(amphora_id).fault)
        up.touch()
        self.until(lambda: self.state(driver, amphora_id) is State.ACTIVE, step_s=2)

    def test_a_secret_is_passed_as_the_path_of_a_file(self):
        secrets = self.folder / 'secrets'
        secrets.mkdir()
        (secrets / 'admin').write_text(SECRET)
        (secrets / 'admin').chmod(0o600)
        seen = self.folder / 'seen'
        claim = self.program('claim', f'cp "$KILN_CREDENTIALS_FILE" {seen}')
        text = pool(1, each=f'credentials = "admin"\nclaim = ["{claim}"]\n')
        driver = self.open_driver(text, secrets_dir=str(secrets))
        self.built(driver)
        self.assertEqual(SECRET, seen.read_text())

    def test_work_left_by_one_process_is_done_by_the_next(self):
        gate = self.folder / 'go'
        driver = self.open_commanded(claim=f'touch begun; test -e {gate} || exec sleep 600')
        amphora_id = driver.build(build_key='k', **METAL)
        self.until((self.folder / 'state' / 'run' / 'm1.claim' / 'begun').exists)
        driver.close()
        gate.touch()
        again = self.open_driver()
        self.assertIs(State.BUILDING, again.status(amphora_id).state)
        self.until(lambda: self.state(again, amphora_id) is State.ACTIVE)
        self.assertEqual(amphora_id, again.build(build_key='k', **METAL))

    def test_a_machine_locked_elsewhere_waits_and_is_logged(self):
        driver = self.open_commanded(claim='true')
        lock = self.lock('m1')
        amphora_id = driver.build(**METAL)
        locked = self.clock.monotonic()
        with self.assertNoLogs('kiln', 'WARNING'):
            self.until(lambda: self.clock.monotonic() > locked + 10)
        with self.warned(step_s=50) as logged:
            pass
        self.assertIn('Machine m1 has been locked', logged.output[0])
        self.assertIs(State.BUILDING, driver.status(amphora_id).state)
        lock.close()
        self.until(lambda: self.state(driver, amphora_id) is State.ACTIVE)
