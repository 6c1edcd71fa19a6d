"""Tests of ``kiln orphans``: without deletion by default, and for cron."""

import contextlib
import json
import pathlib

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from tests.self_moving_clock import SelfMovingClock
from tests.unit.cli.shell import Shell

GRACE = '0.2'


class SlowedClock(SelfMovingClock):
    """A clock that a time service slows down, as much as any does."""

    def time(self):
        return self._epoch + 0.9995 * self._now


class Sweep(Shell):
    def setUp(self):
        super().setUp()
        self.state = self.folder / 'sightings.json'

    def leak(self):
        self.build('leaky', '--metadata', 'noop:fault=leak')
        self.ok('compute', 'delete', 'leaky', '--wait')
        # Older than the grace time, so that the first sighting finds it.
        self.clock.sleep(0.25)

    def ports(self):
        with contextlib.closing(
            NoopCloud(pathlib.Path(self.folder, 'cloud.db'), clock=self.clock)
        ) as cloud:
            return len(list(NoopDriver(cloud=cloud).list_resources('us')))

    def sweep(self, *argv):
        return self.json('compute', 'orphans', '--grace', GRACE, *argv)

    def test_two_sightings_show_an_orphan_and_leave_it(self):
        self.leak()
        (row,) = self.sweep()
        self.assertEqual(('port', 2, 'orphan'), (row['kind'], row['sightings'], row['verdict']))
        self.assertIn('looking again after', self.err)
        self.assertEqual(1, self.ports())

    def test_delete_removes_it(self):
        self.leak()
        self.assertEqual('deleted', self.sweep('--delete')[0]['verdict'])
        self.assertEqual(0, self.ports())

    def test_without_suspects_there_is_no_second_sighting(self):
        self.build('web')
        # The second sighting would be an hour later.
        self.assertEqual([], self.json('compute', 'orphans', '--grace', '3600'))

    def test_with_a_state_file_each_run_looks_once_and_the_second_run_deletes(self):
        self.leak()
        argv = ['--state', str(self.state), '--delete']
        self.assertEqual('suspect', self.sweep(*argv)[0]['verdict'])
        self.assertEqual(1, self.ports())
        self.clock.sleep(0.25)
        self.assertEqual('deleted', self.sweep(*argv)[0]['verdict'])
        self.assertEqual(0, self.ports())
        self.assertEqual([], self.sweep(*argv))
        self.assertEqual([], json.loads(self.state.read_text())['suspects'])
        self.assertEqual([self.state], list(self.folder.glob('*sightings*')))

    def test_unknown_amphorae_are_swept_by_key_or_id(self):
        kept = self.build('kept')
        self.build('keyed', '--build-key', 'k')
        self.build('lost')
        self.clock.sleep(0.25)
        known = self.folder / 'known'
        known.write_text(f'{kept}\n\n  k \n')
        (row,) = self.sweep('--known', str(known), '--delete')
        self.assertEqual(('lost', 'deleted'), (row['name'], row['verdict']))
        self.assertEqual({'kept', 'keyed'}, set(self.states()))

    def test_amphorae_in_error_are_swept_when_asked_for(self):
        self.build('fine')
        self.sh('compute', 'build', '--name', 'bad', '--metadata', 'noop:fault=error=no host')
        self.clock.sleep(0.25)
        self.assertEqual([], self.sweep())
        (row,) = self.sweep('--errors')
        self.assertEqual(('bad', 'in error: no host'), (row['name'], row['reason']))

    def test_a_failed_deletion_is_reported_and_retried_by_the_next_run(self):
        self.leak()
        argv = ['compute', 'orphans', '--grace', GRACE, '--state', str(self.state), '--delete']
        self.ok(*argv)
        self.clock.sleep(0.25)
        text = self.config.read_text()
        self.config.write_text(text.replace(
            'driver = noop\npath', 'driver = noop\ncall_timeout = 0.3\n'
            'faults = delete_resource:refuse\npath', 1))  # fmt: skip
        self.assertIn('kiln: Cannot', self.fails(6, *argv))
        self.assertIn('failed', self.out)
        self.config.write_text(text)
        self.assertIn('deleted', self.ok(*argv))

    def test_the_search_for_orphans_creates_no_store(self):
        self.assertEqual([], self.sweep())
        self.assertFalse((self.folder / 'state').exists())

    def test_an_empty_list_of_known_amphorae_is_refused(self):
        self.build('web')
        known = self.folder / 'known'
        known.write_text('\n')
        err = self.fails(2, 'compute', 'orphans', '--known', str(known), '--delete')
        self.assertIn('all would be orphans', err)

    def test_unusable_files_are_named(self):
        binary = self.folder / 'binary'
        binary.write_bytes(b'\xff\xfe')
        self.assertIn(
            'it is not a text file', self.fails(2, 'compute', 'orphans', '--known', str(binary))
        )
        self.assertIn('/nowhere', self.fails(2, 'compute', 'orphans', '--known', '/nowhere'))
        for text in ('', '[]', '{"backend": "east", "owner": "us", "suspects": [{}]}'):
            self.state.write_text(text)
            err = self.fails(2, 'compute', 'orphans', '--state', str(self.state))
            self.assertIn('it is not a file of sightings. Remove it', err)
        err = self.fails(2, 'compute', 'orphans', '--state', '/nowhere/at/all')
        self.assertIn('Cannot write /nowhere/at/all', err)

    def test_the_sightings_of_another_backend_are_refused(self):
        self.ok('compute', 'orphans', '--state', str(self.state))
        err = self.fails(2, '--backend', 'narrow', 'compute', 'orphans',
                         '--state', str(self.state))  # fmt: skip
        self.assertIn("it belongs to backend 'east' and owner 'us'", err)

    def test_a_backend_that_lists_no_resources_is_swept_for_amphorae(self):
        self.assertEqual([], self.json('--backend', 'narrow', 'compute', 'orphans'))


class Slowed(Sweep):
    """The same beside a time service that slows the wall clock down."""

    def open_clock(self):
        clock = SlowedClock()
        self.addCleanup(clock.close)
        return clock
