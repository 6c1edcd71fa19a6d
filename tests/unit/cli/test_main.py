"""The command as a whole: help, errors, logs, pipes, signals."""

import contextlib
import io
import logging
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cliff.command import Command

from kiln.cli.commands import CommandTable
from kiln.compute_drivers.noop.cloud import NoopCloud
from tests.unit.cli.shell import Shell

ROOT = pathlib.Path(__file__).parents[3]


class Raiser(Command):
    """Raises what it is told to."""

    error = None

    def take_action(self, parsed_args):
        raise self.error


class Errors(Shell):
    def raised(self, error, *argv):
        app = self.app()
        kind = type('Kind', (Raiser,), {'error': error})
        app.command_manager.add_command('boom', kind)
        return self.run_bare('boom', *argv, app=app)

    def test_a_defect_is_one_line_and_status_1(self):
        self.assertEqual(1, self.raised(ZeroDivisionError('oh')))
        self.assertEqual(1, self.err.count('\n'), self.err)
        self.assertIn('kiln: Unexpected ZeroDivisionError: oh. This is a defect', self.err)

    def test_debug_shows_where_a_defect_is(self):
        root = logging.getLogger()
        self.addCleanup(setattr, root, 'handlers', root.handlers[:])
        self.addCleanup(root.setLevel, root.level)
        self.assertEqual(1, self.raised(ZeroDivisionError('oh'), '--debug'))
        self.assertIn('Traceback', self.err)
        self.assertIn('take_action', self.err)

    def test_an_interrupt_is_status_130_without_a_traceback(self):
        self.assertEqual(130, self.raised(KeyboardInterrupt()))
        self.assertEqual('kiln: Interrupted.\n', self.err)

    def test_a_closed_pipe_is_status_141_and_silence(self):
        self.assertEqual(141, self.raised(BrokenPipeError()))
        self.assertEqual('', self.err)

    def test_output_that_cannot_be_flushed_is_an_error(self):
        class Full(io.StringIO):
            def flush(self):
                raise OSError(28, 'No space left on device')

        app = self.app()
        app.stdout = Full()
        self.assertEqual(1, self.run_bare('--config-file', str(self.config), 'compute', 'list',
                                          app=app))  # fmt: skip
        self.assertIn('No space left', self.err)

    def test_an_unknown_command_names_those_that_are_near(self):
        err = self.fails(2, 'compute', 'bild')
        self.assertIn("did you mean 'compute build'", err)
        self.assertEqual('', self.out)

    def test_a_command_like_none_points_to_the_help(self):
        self.assertIn("'kiln --help' lists all", self.fails(2, 'xyzzy'))

    def test_an_unknown_command_is_status_2_with_debug_too(self):
        root = logging.getLogger()
        self.addCleanup(setattr, root, 'handlers', root.handlers[:])
        self.addCleanup(root.setLevel, root.level)
        self.assertEqual(2, self.sh('--debug', 'xyzzy'))

    def test_a_group_alone_lists_its_commands(self):
        self.assertIn('add one of list, open, close', self.fails(2, 'circuit'))

    def test_an_option_that_is_none_is_named(self):
        self.assertIn("Cannot use option '--nonsense' here", self.fails(2, '--nonsense'))
        self.assertIn("'-z'", self.fails(2, '-z', 'compute', 'list'))

    def test_a_number_that_is_none_is_said_to_be_none(self):
        for word in ('x', '-1', '0', 'nan', 'inf'):
            err = self.fails(2, 'compute', 'check', f'--timeout={word}')
            self.assertIn(f"'{word}' is no number above 0", err)
        self.assertIn("'1.5' is no whole number above 0", self.fails(2, 'demo', '--fleet', '1.5'))

    def test_a_configuration_that_cannot_be_read_is_one_line_and_status_2(self):
        for argv in (
            ['--config-file', str(self.folder)], ['--config-dir', '/nowhere'],
            ['--config-file', '/dev/zero/x'],
        ):  # fmt: skip
            with self.subTest(argv):
                self.assertEqual(2, self.run_bare(*argv, 'compute', 'list'), self.err)
                self.assertRegex(self.err, r'^kiln: Cannot read the configuration.*\n$')

    def test_a_missing_configuration_file_is_one_line(self):
        self.assertEqual(2, self.run_bare('--config-file', '/nowhere.conf', 'compute', 'list'))
        self.assertRegex(self.err, r'^kiln: Cannot read the configuration: .*nowhere.conf')

    def test_an_unknown_backend_names_those_that_are_configured(self):
        err = self.fails(2, '--backend', 'west', 'compute', 'list')
        self.assertIn('broken, crowded, east, narrow', err)

    def test_errors_of_the_library_are_seen_and_its_warnings_are_not(self):
        class Talker(Command):
            """Talks."""

            def take_action(self, parsed_args):
                logging.getLogger('kiln.somewhere').error('left %s behind', 'web-1')
                logging.getLogger('kiln.somewhere').warning('hm')

        app = self.app()
        app.command_manager.add_command('talk', Talker)
        self.assertEqual(0, self.run_bare('talk', app=app))
        self.assertEqual('kiln: left web-1 behind\n', self.err)


class Help(Shell):
    def test_no_arguments_print_the_help(self):
        self.assertEqual(0, self.run_bare())
        self.assertIn('compute build', self.out)

    def test_the_help_lists_every_command_with_what_it_does(self):
        self.assertEqual(0, self.run_bare('--help'))
        for name, _ in CommandTable():
            self.assertRegex(self.out, rf'(?m)^  {name} +\S')
        self.assertNotIn('Could not', self.out)

    def test_the_help_of_a_command_is_about_that_command(self):
        for argv in (['compute', 'build', '--help'], ['help', 'compute', 'build']):
            self.assertEqual(0, self.run_bare(*argv))
            self.assertIn('--server-group', self.out)

    def test_every_option_of_a_command_that_needs_one_has_a_help(self):
        for name, entry in CommandTable():
            parser = entry.load()(self.app(), None).get_parser(name)
            for action in parser._actions:
                if action.dest not in ('metadata',):
                    self.assertTrue(action.help, f'{name} {action.dest}')

    def test_no_two_places_of_a_command_have_one_name(self):
        # The second one would forget what the first was given.
        for name, entry in CommandTable():
            parser = entry.load()(self.app(), None).get_parser(name)
            places = [one.dest for one in parser._get_positional_actions()]
            self.assertEqual(len(set(places)), len(places), f'{name}: {places}')


class Processes(unittest.TestCase):
    def start(self, *argv, **more):
        env = {**os.environ, 'PYTHONPATH': str(ROOT), **more}
        process = subprocess.Popen(
            [sys.executable, '-m', 'kiln.cli', *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def loaded_by(self, *argv):
        """Return the names of all modules that one command loads."""
        code = (
            'import sys, io, os; from kiln.cli.main import KilnApp; out = io.StringIO(); '
            f'KilnApp(stdout=out).run({list(argv)!r}); '
            "print(*sys.modules, sep='\\n', flush=True); os._exit(0)"
        )
        done = subprocess.run(
            [sys.executable, '-c', code],
            capture_output=True,
            text=True,
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
        )
        self.assertEqual('', done.stderr)
        return set(done.stdout.splitlines())

    def test_the_version_needs_nothing_that_builds_machines(self):
        loaded = self.loaded_by('--version')
        self.assertIn('cliff.app', loaded)
        heavy = {
            'cmd2', 'futurist', 'kiln.compute', 'kiln.conf', 'kiln.loading', 'opentelemetry',
            'oslo_config', 'oslo_log.log', 'prometheus_client', 'pybreaker', 'redis', 'rich',
        }  # fmt: skip
        self.assertEqual(set(), loaded & heavy)

    def test_a_list_needs_neither_rich_nor_oslo_log(self):
        loaded = self.loaded_by('compute', 'list')
        self.assertTrue(loaded >= {'kiln.compute', 'futurist'})
        self.assertEqual(set(), loaded & {'rich', 'oslo_log.log', 'cmd2'})

    def test_the_version_is_one_line(self):
        out, err = self.start('--version').communicate(timeout=20)
        self.assertRegex(out, r'^kiln \d+\.\d+\S*\n$')
        self.assertEqual('', err)

    def test_a_reader_who_leaves_ends_the_command_without_noise(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run(
            [sys.executable, '-m', 'kiln.cli', 'completion', 'bash'],
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
        )
        os.close(write_end)
        self.assertEqual((141, ''), (done.returncode, done.stderr))

    def test_the_log_goes_where_the_option_or_the_configuration_says(self):
        # One failure opens the circuit, and that is in the log.
        faulty = {
            'KILN_COMPUTE_NOOP__FAULTS': '*:refuse',
            'KILN_COMPUTE_NOOP__CIRCUIT_MINIMUM_CALLS': '1',
            'KILN_COMPUTE_NOOP__CALL_TIMEOUT': '2',
        }
        with tempfile.TemporaryDirectory() as folder:
            path, config = pathlib.Path(folder, 'kiln.log'), pathlib.Path(folder, 'kiln.conf')
            config.write_text(f'[DEFAULT]\nlog_file = {path}\n')
            for option in (['--log-file', str(path)], ['--config-file', str(config)]):
                process = self.start(*option, 'compute', 'list', **faulty)
                _, err = process.communicate(timeout=20)
                self.assertEqual(1, err.count('\n'), err)
                self.assertIn('Circuit noop/read: closed -> open', path.read_text())
                path.unlink()

    def test_verbose_prints_the_log_beside_the_error(self):
        process = self.start(
            '-v', 'compute', 'list',
            KILN_COMPUTE_NOOP__FAULTS='*:refuse',
            KILN_COMPUTE_NOOP__CIRCUIT_MINIMUM_CALLS='1',
            KILN_COMPUTE_NOOP__CALL_TIMEOUT='2',
        )  # fmt: skip
        _, err = process.communicate(timeout=20)
        self.assertIn('Circuit noop/read: closed -> open', err)
        self.assertRegex(err, r'\nkiln: C.*refuses all work')

    def test_a_log_that_cannot_be_opened_is_one_line(self):
        process = self.start('--log-file', '/nowhere/kiln.log', 'compute', 'list')
        _, err = process.communicate(timeout=20)
        self.assertEqual(2, process.returncode)
        self.assertRegex(err, r'^kiln: Cannot set up the log: .*\n$')

    def test_what_is_confided_is_printed_by_no_format_no_error_and_no_log(self):
        with tempfile.TemporaryDirectory() as folder:
            secret, log = pathlib.Path(folder, 'secret'), pathlib.Path(folder, 'log')
            secret.write_text('hush-a-bye')
            for more in (['-f', 'json'], ['--flavor', 'impossible'], ['--flavor', 'none']):
                for logged in (['--debug'], ['--debug', '--log-file', str(log)]):
                    process = self.start(
                        *logged, 'compute', 'build', '--wait', '--key', 'hush-a-bye', *more,
                        '--file', f'/etc/key={secret}', '--user-data', str(secret),
                    )  # fmt: skip
                    out, err = process.communicate(timeout=20)
                    self.assertTrue(out + err)
                    self.assertNotIn('hush', out + err)
            self.assertNotIn('hush', log.read_text())

    def test_ctrl_c_and_sigterm_end_a_build_and_remove_what_it_made(self):
        # A process started in the background of a shell ignores Ctrl-C, and so
        # do its children; what is handled here they meet as the terminal's.
        self.addCleanup(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                cloud = f'{folder}/cloud.db'
                process = self.start(
                    'compute', 'build', '--wait',
                    KILN_COMPUTE_NOOP__PATH=cloud, KILN_COMPUTE_NOOP__BUILD_S='60',
                )  # fmt: skip
                self.await_machines(cloud, 1)
                process.send_signal(number)
                _, err = process.communicate(timeout=20)
                self.assertEqual(status, process.returncode, err)
                self.assertNotIn('Traceback', err)
                self.await_machines(cloud, 0)

    def test_ctrl_c_and_sigterm_end_a_conformance_run_and_remove_what_it_built(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                cloud = f'{folder}/cloud.db'
                process = self.start(
                    'driver', 'test', 'noop', '--guarded',
                    '--select', 'test_a_new_instance_becomes_active',
                    KILN_COMPUTE_NOOP__PATH=cloud, KILN_COMPUTE_NOOP__BUILD_S='60',
                )  # fmt: skip
                self.await_machines(cloud, 1)
                process.send_signal(number)
                out, err = process.communicate(timeout=20)
                self.assertEqual(status, process.returncode, err)
                self.assertEqual('', out)
                self.assertNotIn('Traceback', err)
                self.await_machines(cloud, 0)

    def test_closed_output_changes_nothing_but_what_is_seen(self):
        program = f'{sys.executable} -m kiln.cli'
        for command, status in (
            (f'{program} compute list >&-', 0), (f'{program} compute list 2>&-', 0),
            (f'{program} compute list >&- 2>&-', 0), (f'{program} compute show x >&-', 3),
            (f'{program} xyzzy 2>&-', 2),
        ):  # fmt: skip
            with self.subTest(command):
                done = subprocess.run(
                    ['sh', '-c', command], cwd=ROOT, capture_output=True, text=True, timeout=20
                )
                self.assertEqual(status, done.returncode, done.stderr)
                self.assertNotIn('defect', done.stderr)

    def test_a_backend_that_hangs_does_not_hold_up_the_end(self):
        process = self.start(
            'compute', 'list', '--timeout', '0.3', KILN_COMPUTE_NOOP__FAULTS='*:hang=3600'
        )
        _, err = process.communicate(timeout=30)
        self.assertEqual(6, process.returncode, err)

    def await_machines(self, path, count):
        with contextlib.closing(NoopCloud(path)) as cloud:
            give_up = time.monotonic() + 20
            while cloud.count() != count:
                self.assertLess(time.monotonic(), give_up, f'{cloud.count()} machines')
                time.sleep(0.05)
