"""The commands about amphorae, on a cloud in a file that they share."""

import contextlib
import csv
import io
import json
import pathlib
import socket

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from tests.unit.cli.shell import Shell


class Looking(Shell):
    def test_commands_list_show_and_delete_what_another_command_built(self):
        amphora_id = self.build('web')
        self.assertEqual({'web': 'active'}, self.states())
        self.assertEqual(amphora_id, self.json('compute', 'show', 'web')['id'])
        self.ok('compute', 'delete', 'web', '--wait')
        self.assertEqual({}, self.states())

    def test_amphorae_are_found_by_name_or_id(self):
        amphora_id = self.build('web')
        for word in ('web', amphora_id):
            self.assertEqual('web', self.json('compute', 'show', word)['name'])
            self.assertTrue(self.json('compute', 'status', word)['ready'])

    def test_a_missing_amphora_is_status_3(self):
        for command in ('show', 'status', 'console'):
            self.assertIn("Cannot find 'web'", self.fails(3, 'compute', command, 'web'))

    def test_an_ambiguous_name_is_status_4_and_lists_the_ids(self):
        ids = [self.build('web'), self.build('web')]
        err = self.fails(4, 'compute', 'show', 'web')
        for amphora_id in ids:
            self.assertIn(amphora_id, err)

    def test_a_list_prints_the_requested_columns_in_any_format(self):
        self.build('web', '--metadata', 'role=front')
        self.assertEqual('web active\n', self.ok(
            'compute', 'list', '-f', 'value', '-c', 'name', '-c', 'state'))  # fmt: skip
        rows = list(csv.reader(io.StringIO(self.ok(
            'compute', 'list', '-f', 'csv', '-c', 'name', '-c', 'metadata'))))  # fmt: skip
        self.assertEqual([['name', 'metadata'], ['web', "{'role': 'front'}"]], rows)
        self.assertIn('role: front', self.ok('compute', 'list', '-f', 'yaml'))
        self.assertIn('role=front', self.ok('compute', 'list', '--long'))
        self.assertNotIn('role=front', self.ok('compute', 'list'))

    def test_an_empty_list_prints_nothing_but_its_columns_if_they_are_asked_for(self):
        self.assertEqual('', self.ok('compute', 'list'))
        self.assertIn('| id ', self.ok('compute', 'list', '--print-empty'))
        self.assertEqual([], self.json('compute', 'list'))

    def test_an_unknown_column_is_status_2_and_lists_the_columns(self):
        self.assertIn('choose from id, name', self.fails(2, 'compute', 'list', '-c', 'zork'))
        self.build('web')
        self.assertIn('task_state', self.fails(2, 'compute', 'show', 'web', '-c', 'zork'))

    def test_a_list_is_sorted_with_missing_values_last(self):
        self.build('a', '--flavor', 'tiny')
        self.build('b')
        self.build('c', '--flavor', 'small')
        listed = self.ok(
            'compute', 'list', '--sort-column', 'flavor', '-f', 'value', '-c', 'name',
            '-c', 'flavor',
        )  # fmt: skip
        self.assertEqual(['c small', 'a tiny', 'b None'], listed.splitlines())

    def test_another_sites_amphorae_are_listed_only_by_its_tag(self):
        self.build('ours')
        self.assertEqual([], self.json('compute', 'list', '--owner', 'them'))

    def test_the_console_is_text_or_json(self):
        self.build('web')
        text = self.ok('compute', 'console', 'web')
        self.assertTrue(text.endswith('\n') and not text.startswith('{'))
        self.assertEqual(text.strip(), self.json('compute', 'console', 'web')['console'].strip())
        last = self.ok('compute', 'console', 'web', '--lines', '1')
        self.assertEqual(text.splitlines()[-1:], last.splitlines())

    def test_a_check_shows_abilities_and_health(self):
        answer = self.json('compute', 'check')
        self.assertEqual(('east', True), (answer['backend'], answer['healthy']))
        self.assertIn('suspend', answer['abilities'])

    def test_a_check_fits_into_100_columns(self):
        self.assertLessEqual(max(map(len, self.ok('compute', 'check').splitlines())), 100)

    def test_a_check_asks_once_and_reports_within_5_seconds(self):
        began = self.clock.monotonic()
        err = self.fails(6, '--backend', 'broken', 'compute', 'check')
        self.assertIn('down for repairs', err)
        self.assertNotIn('Circuit', err)
        self.assertLess(self.clock.monotonic() - began, 0.2)

    def test_a_backend_that_does_not_answer_is_status_6(self):
        err = self.fails(6, '--backend', 'broken', 'compute', 'check')
        self.assertIn('down for repairs', err)
        self.fails(6, '--backend', 'broken', 'compute', 'list')


class Building(Shell):
    def test_a_script_reads_only_the_id(self):
        amphora_id = self.ok('compute', 'build', '--name', 'web', '-f', 'value', '-c', 'id')
        self.assertEqual(amphora_id.strip(), self.json('compute', 'show', 'web')['id'])

    def test_every_argument_of_the_contract_arrives(self):
        secret = self.folder / 'key.pem'
        secret.write_text('top')
        port = '11111111-1111-1111-1111-111111111111'
        self.build(
            'web', '--build-key', 'k1', '--type', 'container', '--flavor', 'tiny',
            '--image', 'img', '--key', 'mine', '--sec-group', 'sg', '--network', 'net-1',
            '--port', port, '--zone', 'az2', '--file', f'/etc/k={secret}:0600:app',
            '--file', f'/etc/l={secret}', '--user-data', str(secret),
            '--metadata', 'a=b=c', '--priority', 'high', '--timeout', '30',
        )  # fmt: skip
        shown = self.json('compute', 'show', 'web')
        self.assertEqual(
            ('k1', 'container', 'tiny', 'img', 'az2', {'a': 'b=c'}, 'us'),
            tuple(
                shown[name]
                for name in ('build_key', 'type', 'flavor', 'image', 'zone', 'metadata', 'owner')
            ),
        )
        self.assertEqual(2, len(shown['addresses']))

    def test_the_same_key_adopts_the_existing_amphora(self):
        self.assertEqual(self.build('web', '--build-key', 'k'), self.build(
            'web', '--build-key', 'k'))  # fmt: skip

    def test_a_fleet_has_numbered_names_and_keys(self):
        rows = self.json('compute', 'build', '--name', 'web', '--build-key', 'k', '--count', '3')
        self.assertEqual(['web-1', 'web-2', 'web-3'], [row['name'] for row in rows])
        self.assertEqual(['k-1', 'k-2', 'k-3'], [row['build_key'] for row in rows])
        self.assertEqual(3, len(self.states()))

    def test_without_a_name_the_name_comes_from_the_key(self):
        (row,) = self.json('compute', 'build')
        self.assertEqual(f'amphora-{row["build_key"]}', row['name'])

    def test_a_fleet_reports_each_amphora_on_stderr_unless_quiet(self):
        self.ok('compute', 'build', '--name', 'web', '--count', '2', '--wait')
        self.assertRegex(self.err, r'web-\d: active \(1 of 2\)\nweb-\d: active \(2 of 2\)\n')
        self.ok('-q', 'compute', 'build', '--name', 'x', '--count', '2', '--wait')
        self.assertEqual('', self.err)
        self.json('compute', 'build', '--name', 'y', '--count', '2')
        self.assertEqual('', self.err)

    def test_an_invalid_request_is_status_2(self):
        self.assertIn('flavor', self.fails(2, 'compute', 'build', '--flavor', 'none'))
        self.assertIn('name is empty', self.fails(2, 'compute', 'build', '--name', ' x'))
        self.assertIn('port belongs to one', self.fails(
            2, 'compute', 'build', '--port', 'p', '--count', '2'))  # fmt: skip
        for wrong in (['--count', '0'], ['--timeout', '-1'], ['--timeout', 'nan'],
                      ['--metadata', 'x'], ['--wait', '--until', 'ready']):  # fmt: skip
            self.fails(2, 'compute', 'build', *wrong)
        self.assertEqual({}, self.states())

    def test_unusable_files_are_named(self):
        for text, words in {
            '/etc/x': 'write it as PATH=LOCALFILE',
            '/etc/x=': 'write it as PATH=LOCALFILE',
            '/etc/x=/nowhere': 'Cannot read /nowhere: No such file',
            f'/etc/x={self.config}:rw': "mode 'rw' is not octal",
            f'/etc/x={self.config}:0600:me:too': 'more than a mode and an owner',
        }.items():
            self.assertIn(words, self.fails(2, 'compute', 'build', '--file', text))

    def test_a_too_large_file_is_refused_without_reading_all_of_it(self):
        err = self.fails(2, 'compute', 'build', '--user-data', '/dev/zero')
        self.assertIn('user_data is larger', err)

    def test_a_width_of_100_holds_a_list_without_breaking_ids(self):
        self.build('web')
        self.assertLessEqual(max(map(len, self.ok('compute', 'list').splitlines())), 100)

    def test_no_room_is_status_5(self):
        err = self.fails(5, 'compute', 'build', '--flavor', 'impossible')
        self.assertIn('Cannot build', err)

    def test_waiting_until_ready_needs_a_valid_probe(self):
        self.assertIn('write it like tcp:22', self.fails(2, 'compute', 'build', '--probe', 'ping'))
        self.assertIn('needs a probe', self.fails(2, 'compute', 'build', '--until', 'ready'))
        err = self.fails(2, 'compute', 'build', '--probe', 'tcp:22', '--wait')
        self.assertIn('only with until', err)

    def test_a_successful_probe_makes_the_amphora_ready(self):
        # Simulated machines have addresses of this host.
        with socket.create_server(('', 0)) as server:
            port = server.getsockname()[1]
            (row,) = self.json('compute', 'build', '--probe', f'tcp:{port}', '--timeout', '20')
        self.assertEqual('ready', row['result'])

    def test_a_probe_that_never_succeeds_is_status_6_and_leaves_nothing(self):
        # No server listens on port 1.
        err = self.fails(6, 'compute', 'build', '--probe', 'tcp:1', '--timeout', '1')
        self.assertIn('kiln: Cannot', err)
        self.assertEqual({}, self.states())


class SlowBuilding(Shell):
    east = 'build_s = 30'

    def test_a_build_that_misses_its_deadline_is_status_6_and_leaves_nothing(self):
        for how_far in (['--wait'], ['--probe', 'tcp:22']):
            self.fails(6, 'compute', 'build', *how_far, '--timeout', '0.3')
            self.assertEqual({}, self.states())

    def test_an_accepted_build_is_not_waited_for(self):
        (row,) = self.json('compute', 'build', '--name', 'web')
        self.assertEqual('accepted', row['result'])
        self.assertEqual({'web': 'building'}, self.states())


class ScarceBuilding(Shell):
    east = 'quota = 2'

    def test_a_partly_failed_fleet_is_status_9_and_lists_the_failures(self):
        self.assertEqual(9, self.sh(
            'compute', 'build', '--name', 'web', '--count', '3', '-f', 'value',
            '-c', 'result', '-c', 'error'))  # fmt: skip
        self.assertCountEqual(
            ['accepted None', 'accepted None', 'failed quota_exceeded'], self.out.splitlines()
        )
        self.assertEqual(1, self.err.count('kiln: '))

    def test_a_fleet_that_fails_for_one_reason_has_the_status_of_this_reason(self):
        self.ok('compute', 'build', '--count', '2')
        self.fails(5, 'compute', 'build', '--count', '2')


class Changing(Shell):
    def test_machines_are_suspended_resumed_rebooted_and_rebuilt(self):
        self.build('web')
        self.assertEqual(
            'suspended', self.json('compute', 'suspend', 'web', '--wait')[0]['result']
        )
        self.assertEqual({'web': 'suspended'}, self.states())
        self.ok('compute', 'resume', 'web', '--wait')
        self.ok('compute', 'reboot', 'web', '--hard', '--wait')
        self.ok('compute', 'rebuild', 'web', '--image', 'other', '--wait')
        self.assertEqual('other', self.json('compute', 'show', 'web')['image'])
        self.assertEqual({'web': 'active'}, self.states())

    def test_without_wait_the_result_is_the_accepted_state(self):
        self.build('web')
        self.assertEqual('rebooting', self.json('compute', 'reboot', 'web')[0]['result'])

    def test_failures_do_not_stop_the_others(self):
        self.build('a')
        self.build('b')
        err = self.fails(9, 'compute', 'delete', 'a', 'none', 'b', '--wait')
        self.assertIn("Cannot find 'none'", err)
        self.assertRegex(self.out, r'none +\| failed +\| instance_not_found')
        self.assertEqual({}, self.states())

    def test_a_word_given_twice_counts_once(self):
        self.build('a')
        self.assertEqual(1, len(self.json('compute', 'delete', 'a', 'a')))

    def test_a_state_that_forbids_it_is_status_4(self):
        self.build('web')
        self.assertIn('kiln: Cannot resume', self.fails(4, 'compute', 'resume', 'web'))

    def test_a_missing_ability_is_status_8(self):
        path = self.folder / 'cloud.db'
        self.build('web')
        text = self.config.read_text()
        self.config.write_text(f'{text}path = {path}\n')
        err = self.fails(8, '--backend', 'narrow', 'compute', 'suspend', 'web')
        self.assertIn("driver 'narrow' lacks this ability", err)

    def test_an_unreachable_backend_is_reported_for_each_amphora(self):
        err = self.fails(6, '--backend', 'broken', 'compute', 'delete', 'a', 'b')
        self.assertEqual(2, err.count('kiln: '))


class Crowding(Shell):
    def test_a_full_queue_is_reported_for_each_amphora_and_the_others_are_done(self):
        argv = ['--backend', 'crowded', 'compute']
        err = self.fails(9, *argv, 'build', '--name', 'web', '--count', '30')
        self.assertIn('web-1 ', self.out)
        self.assertIn('operation_rejected', self.out)
        self.assertIn('kiln: ', err)
        words = [f'no-{n}' for n in range(30)]
        self.fails(9, *argv, 'delete', *words)
        self.assertIn('operation_rejected', self.out)
        self.assertIn('instance_not_found', self.out)


class LiveProgress(Shell):
    terminal = True

    def test_on_a_terminal_a_fleet_is_drawn(self):
        self.ok('compute', 'build', '--name', 'web', '--count', '3', '--wait')
        self.assertIn('3/3', self.err)
        self.assertIn('3 active', self.err)
        self.assertIn('■', self.err)

    def test_a_single_amphora_is_not_drawn(self):
        self.ok('compute', 'build', '--wait')
        self.assertEqual('', self.err)


class Told(io.StringIO):
    """A stream that calls a function once, after the first write."""

    then = None

    def flush(self):
        super().flush()
        if self.then is not None and self.getvalue():
            then, self.then = self.then, None
            then()


class Watching(Shell):
    #: Called after the first poll.
    once_told = None

    def app(self):
        stdout = Told()
        stdout.then = self.once_told
        return super().app(stdout=stdout)

    def events(self, *argv):
        self.ok('compute', 'watch', '-f', 'json', '--interval', '0.02', *argv)
        return [json.loads(line) for line in self.out.splitlines()]

    def cloud(self):
        return self.enterContext(
            contextlib.closing(
                NoopCloud(pathlib.Path(self.folder, 'cloud.db'), clock=self.clock, suspend_s=0.2)
            )
        )

    def test_watch_prints_each_change_until_the_given_state(self):
        amphora_id = self.build('web')
        driver = NoopDriver(cloud=self.cloud())
        self.once_told = lambda: driver.suspend(amphora_id)
        events = self.events('web', '--until', 'suspended')
        self.assertEqual(('active', None), (events[0]['state'], events[0]['task_state']))
        self.assertEqual('suspended', events[-1]['state'])
        self.assertEqual({'web'}, {event['name'] for event in events})

    def test_watch_ends_when_all_named_amphorae_are_gone(self):
        amphora_id = self.build('web')
        cloud = self.cloud()
        self.once_told = lambda: cloud.vanish(amphora_id)
        self.assertEqual(['active', 'deleted'], [event['state'] for event in self.events('web')])

    def test_a_state_that_can_never_be_reached_is_status_3(self):
        amphora_id = self.build('web')
        cloud = self.cloud()
        self.once_told = lambda: cloud.vanish(amphora_id)
        err = self.fails(3, 'compute', 'watch', 'web', '--until', 'stopped', '--interval', '0.02')
        self.assertIn('Cannot wait for web to be stopped', err)

    def test_without_names_watch_follows_all_amphorae_until_its_timeout(self):
        self.build('web')
        cloud = self.cloud()
        self.once_told = lambda: cloud.crash(cloud.instances()[0].id, 'the host died')
        self.assertEqual(6, self.sh(
            'compute', 'watch', '--interval', '0.02', '--timeout', '2'))  # fmt: skip
        lines = self.out.splitlines()
        self.assertRegex(lines[0], r'^\S+Z  \S+  web  active$')
        self.assertRegex(lines[-1], r'web  error: the host died$')
