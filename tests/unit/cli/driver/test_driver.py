"""The commands about drivers."""

import io
import logging
import subprocess
import sys
import threading
import unittest

from kiln.cli.app import KilnApp
from kiln.cli.driver.test import without_provoked_complaints
from kiln.exceptions import DeleteFailed
from kiln.testing.minimal import MinimalDriver
from kiln.wrappers.executor import executor
from tests.unit.cli.shell import Shell


class Drivers(Shell):
    def test_the_installed_drivers_are_listed(self):
        noop = next(one for one in self.json('driver', 'list') if one['name'] == 'noop')
        self.assertIn('package kiln-compute', noop['origin'])
        self.assertEqual(
            ('compute', 'active', None), tuple(noop[key] for key in ('kind', 'state', 'reason'))
        )

    def test_a_driver_shows_what_it_builds_and_its_options(self):
        shown = self.json('driver', 'show', 'noop')
        self.assertIn('container', shown['types'])
        self.assertIn('quota', shown['options'])
        self.assertEqual(5, shown['max_files'])
        self.assertNotIn('types', self.json('driver', 'show', 'appliance'))

    def test_the_behaviours_of_each_kit_are_listed_in_the_words_that_select_takes(self):
        for name, subject in (('noop', 'Building'), ('nodes_v1', 'Life of a cluster')):
            with self.subTest(name):
                listed = self.json('driver', 'test', name, '--list')
                (found,) = [one for one in listed if one['subject'] == subject]
                told = self.ok('driver', 'test', name, '--list').splitlines()
                at = told.index(subject)
                self.assertEqual(f'  {found["behaviours"][0]}', told[at + 1])
                for word in (found['behaviours'][0], subject):
                    (chosen,) = self.json('driver', 'test', name, '--list', '--select', word)
                    self.assertIn(found['behaviours'][0], chosen['behaviours'])

    def test_nothing_is_listed_for_a_missing_driver_or_an_unknown_behaviour(self):
        said = self.fails(2, 'driver', 'test', 'tsunami', '--list')
        self.assertIn("Backend 'tsunami' is not configured. Configured: broken, crowded,", said)
        self.assertIn('Installed: appliance, docker,', said)
        said = self.fails(2, 'driver', 'test', 'noop', '--list', '--select', 'nothing like it')
        self.assertIn('Cannot find a behaviour called nothing like it', said)

    def test_the_folder_of_a_compute_driver_is_refused_before_anything_is_imported(self):
        (self.folder / 'pyproject.toml').touch()
        code = (
            'import sys; sys.modules["sqlalchemy"] = None; '
            'from kiln.cli.app import KilnApp; '
            'sys.exit(KilnApp().run(["driver", "test", "./"]))'
        )
        done = subprocess.run(
            [sys.executable, '-c', code], capture_output=True, text=True, check=False,
            timeout=120, cwd=self.folder,
        )  # fmt: skip
        self.assertEqual((2, ''), (done.returncode, done.stdout))
        self.assertIn('Cannot use ./: it is the folder of a package, and has no', done.stderr)

    def test_the_behaviours_of_compute_drivers_are_listed_without_sqlalchemy(self):
        # In a process of its own: other tests import it.
        code = (
            'import sys; sys.modules["sqlalchemy"] = None; '
            'from kiln.cli.app import KilnApp; '
            'sys.exit(KilnApp().run(["driver", "test", "noop", "--list"]))'
        )
        done = subprocess.run(
            [sys.executable, '-c', code], capture_output=True, text=True, check=False, timeout=120
        )
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertIn('Building', done.stdout)

    def test_a_missing_driver_is_status_2_and_lists_the_installed_ones(self):
        said = self.fails(2, 'driver', 'show', 'tsunami')
        self.assertRegex(said, 'Installed: appliance, .*nodes_v1, noop, nova')

    def test_one_driver_is_checked_by_its_name(self):
        self.assertEqual([], self.json('driver', 'check', 'noop'))
        self.assertEqual([], self.json('driver', 'check', 'nodes_v1'))
        for kind in ([], ['--kind', 'compute'], ['--kind', 'cluster']):
            said = self.fails(2, 'driver', 'check', 'tsunami', *kind)
            self.assertRegex(said, "Cannot find .*'tsunami'. Installed: ")

    def test_a_new_driver_is_written_and_nothing_is_overwritten(self):
        argv = ['driver', 'new', 'compute', 'acme', '--type', 'container', '--output',
                str(self.folder)]  # fmt: skip
        files = [row['file'] for row in self.json(*argv)]
        self.assertTrue((self.folder / 'kiln-driver-acme' / 'setup.cfg').is_file())
        self.assertIn(str(self.folder / 'kiln-driver-acme' / 'setup.cfg'), files)
        self.assertIn('kiln-driver-acme/README.rst lists the next steps', self.err)
        self.assertIn('it exists', self.fails(2, *argv))

    def test_a_new_driver_needs_a_name_a_type_and_a_directory(self):
        here = ['--output', str(self.folder)]
        self.assertIn('lower-case', self.fails(2, 'driver', 'new', 'compute', 'Acme', *here))
        err = self.fails(2, 'driver', 'new', 'compute', 'acme', '--type', 'toaster', *here)
        self.assertRegex(err, "'toaster'.*choose from .*vm.*container")
        self.fails(2, 'driver', 'new', 'house', 'acme', *here)
        err = self.fails(2, 'driver', 'new', 'compute', 'acme', '--output', '/nowhere')
        self.assertIn('not a directory', err)
        err = self.fails(2, 'driver', 'new', 'compute', 'acme', '--output', '/proc')
        self.assertIn('Cannot write to /proc', err)


class Circuits(Shell):
    def test_listing_circuits_of_each_process_is_refused_instead_of_showing_its_own(self):
        err = self.fails(2, 'circuit', 'list')
        self.assertIn('Set circuit_redis_url in [compute:east]', err)

    def test_opening_a_circuit_of_one_process_is_refused(self):
        for verb in ('open', 'close'):
            err = self.fails(2, 'circuit', verb, 'build')
            self.assertIn('Set circuit_redis_url in [compute:east]', err)


def schedulers():
    return [one for one in threading.enumerate() if one.name == 'noop-scheduler']


class Kit(Shell):
    some = ('--select', '*find*')

    def test_a_correct_driver_passes_with_and_without_its_guards(self):
        for more in ([], ['--guarded']):
            out = self.ok('driver', 'test', 'narrow', *self.some, *more)
            self.assertRegex(out, r'narrow: [1-9]\d* behaviours shown, 0 failed')

    def test_a_guarded_run_leaves_no_thread(self):
        before = set(threading.enumerate())
        self.ok('driver', 'test', 'noop', '--guarded', '--select', '*build_returns*', '--select',
                '*closing*', '--select', '*vanished*')  # fmt: skip
        left = [thread for thread in threading.enumerate() if thread not in before]
        for thread in left:
            thread.join(120)
        self.assertEqual([], [thread.name for thread in left if thread.is_alive()])

    def test_each_backend_is_closed_before_the_next_is_opened(self):
        counts = []

        class Counting(KilnApp):
            @property
            def backends(self):
                counts.append(len(schedulers()))
                return super().backends

        app = Counting(stdout=io.StringIO(), stderr=io.StringIO())
        more = ['--select', '*list*', '--guarded']
        self.assertEqual(0, self.run_bare('--config-file', str(self.config), 'driver', 'test',
                                          'noop', *more, app=app), self.err)  # fmt: skip
        self.assertGreater(len(counts), 10)
        self.assertLessEqual(max(counts), 1)

    def test_a_backend_that_breaks_a_promise_is_status_1_and_named(self):
        self.fails(1, 'driver', 'test', 'broken', *self.some)
        self.assertIn('FAIL', self.out)
        self.assertIn('down for repairs', self.out)

    def test_the_report_is_also_json(self):
        report = self.json('driver', 'test', 'east', *self.some)
        self.assertEqual((True, 0), (report['ok'], report['failed']))
        self.assertEqual([], self.json('compute', 'list'))

    def test_build_arguments_are_passed_on(self):
        self.ok('driver', 'test', 'east', '--select', '*key*', '--build', 'amphora_flavor=tiny',
                '--build', 'network_ids=a,b', '--port', 'p', '--network', 'n')  # fmt: skip
        self.fails(1, 'driver', 'test', 'east', '--select', '*key*', '--build',
                   'amphora_flavor=none')  # fmt: skip

    def test_an_empty_selection_is_refused_with_its_patterns(self):
        err = self.fails(2, 'driver', 'test', 'east', '--select', 'xyzzy', '--select', 'y')
        self.assertIn('Cannot find a behaviour called xyzzy or y.', err)

    def test_an_unknown_build_argument_is_refused_before_any_build(self):
        err = self.fails(2, 'driver', 'test', 'east', '--build', 'flavour=tiny')
        self.assertIn("Cannot build with 'flavour': choose from amphora_flavor, ", err)
        self.assertNotIn('self', err)


class ProvokedComplaints(unittest.TestCase):
    def test_a_build_that_guards_could_not_clean_up_in_an_outage_is_no_complaint(self):
        logger = logging.getLogger(executor.__name__)
        with self.assertLogs(logger, 'ERROR') as logged:
            with without_provoked_complaints():
                logger.error('%s', DeleteFailed('Cannot make sure that nothing is left.'))
                logger.error('%s', 'Another trouble.')
            logger.error('%s', DeleteFailed('Cannot make sure after it.'))
        said = [one.getMessage() for one in logged.records]
        self.assertEqual(['Another trouble.', 'Cannot make sure after it.'], said)


class InterruptedKit(Shell):
    def test_an_interrupt_shows_the_results_so_far_and_what_was_running(self):
        class Stopped(MinimalDriver):
            def _status(self, amphora_id):
                raise KeyboardInterrupt

        class Stopping(KilnApp):
            @property
            def backends(self):
                backends = super().backends
                backends.open_driver = lambda name: Stopped()
                return backends

        app = Stopping(stdout=io.StringIO(), stderr=io.StringIO())
        more = ['--select', '*returns_the_id*', '--select', '*becomes_active*']
        status = self.run_bare('--config-file', str(self.config), 'driver', 'test', 'noop', *more,
                               app=app)  # fmt: skip
        self.assertEqual(130, status, self.err)
        self.assertRegex(self.out, '(?s)ok   a build returns the id of .+Interrupted in: a new')
        self.assertIn('Interrupted.', self.err)


class KitOnATerminal(Shell):
    terminal = True

    def test_each_behaviour_is_a_dot(self):
        self.ok('driver', 'test', 'east', '--select', '*find*')
        self.assertRegex(self.err, r'^[.-]+\n$')
