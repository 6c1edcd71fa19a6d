"""The command as a whole: help, errors, logs, pipes, signals."""

import io
import logging
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

from cliff.command import Command

from kiln.cli.commands import _HOMES, CommandTable
from tests.unit.cli.shell import Shell

ROOT = pathlib.Path(__file__).parents[3]


class Raiser(Command):
    """Raises the given error."""

    error = None

    def take_action(self, parsed_args):
        raise self.error


class Errors(Shell):
    def raised(self, error, *argv):
        app = self.app()
        kind = type('Kind', (Raiser,), {'error': error})
        app.command_manager.add_command('boom', kind)
        return self.run_bare('boom', *argv, app=app)

    def test_an_unexpected_error_is_one_line_and_status_1(self):
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

    def test_an_unknown_command_suggests_similar_ones(self):
        err = self.fails(2, 'compute', 'bild')
        self.assertIn("did you mean 'compute build'", err)
        self.assertEqual('', self.out)

    def test_a_command_without_similar_ones_points_to_the_help(self):
        self.assertIn("'kiln --help' lists all", self.fails(2, 'xyzzy'))

    def test_an_unknown_command_is_status_2_with_debug_too(self):
        root = logging.getLogger()
        self.addCleanup(setattr, root, 'handlers', root.handlers[:])
        self.addCleanup(root.setLevel, root.level)
        self.assertEqual(2, self.sh('--debug', 'xyzzy'))

    def test_a_group_alone_lists_its_commands(self):
        self.assertIn('add one of list, open, close', self.fails(2, 'circuit'))

    def test_an_unknown_option_is_named(self):
        self.assertIn("Cannot use option '--nonsense' here", self.fails(2, '--nonsense'))
        self.assertIn("'-z'", self.fails(2, '-z', 'compute', 'list'))

    def test_an_invalid_number_is_refused(self):
        for word in ('x', '-1', '0', 'nan', 'inf'):
            err = self.fails(2, 'compute', 'check', f'--timeout={word}')
            self.assertIn(f"'{word}' is not a number above 0", err)
        for words in (('compute', 'check', '--timeout=1e308'), ('orphans', '--grace', '31622401')):
            self.assertIn('is more than a year', self.fails(2, *words))
        self.assertIn(
            "'1.5' is not a whole number above 0", self.fails(2, 'demo', '--fleet', '1.5')
        )

    def test_an_argument_that_is_not_text_is_refused_by_its_number(self):
        for argv in (('cluster', 'show', '\udcff'), ('node', 'list', 'web\udc80')):
            err = self.fails(2, *argv)
            self.assertRegex(err, r"Cannot read argument \d: '\S*\\udc(ff|80)' is not UTF-8 text")

    def test_an_empty_name_of_a_backend_is_not_the_default_backend(self):
        self.assertIn("''", self.fails(2, '--backend', '', 'compute', 'list'))

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

    def test_an_unknown_backend_lists_the_configured_ones(self):
        err = self.fails(2, '--backend', 'west', 'compute', 'list')
        self.assertIn('broken, crowded, east, narrow', err)

    def test_errors_of_the_library_are_shown_but_warnings_are_not(self):
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

    def test_the_help_lists_every_command_with_its_summary(self):
        self.assertEqual(0, self.run_bare('--help'))
        for name, _ in CommandTable():
            self.assertRegex(self.out, rf'(?m)^  {name} +\S')
        self.assertNotIn('Could not', self.out)

    def test_the_file_of_a_command_is_named_by_the_command_or_its_family(self):
        for name, home in _HOMES.items():
            family, *words = name.replace('-', ' ').split()
            file = home.partition(':')[0].rpartition('.')[2]
            with self.subTest(name, file=file):
                self.assertTrue(file == family or set(words or [family]) & set(file.split('_')))

    def test_the_help_of_a_command_is_about_that_command(self):
        for argv in (['compute', 'build', '--help'], ['help', 'compute', 'build']):
            self.assertEqual(0, self.run_bare(*argv))
            self.assertIn('--server-group', self.out)

    def test_every_option_has_a_help_text(self):
        for name, entry in CommandTable():
            parser = entry.load()(self.app(), None).get_parser(name)
            for action in parser._actions:
                if action.dest not in ('metadata',):
                    self.assertTrue(action.help, f'{name} {action.dest}')

    def test_arguments_of_a_command_have_different_names(self):
        # The second argument would overwrite the value of the first.
        for name, entry in CommandTable():
            parser = entry.load()(self.app(), None).get_parser(name)
            places = [one.dest for one in parser._get_positional_actions()]
            self.assertEqual(len(set(places)), len(places), f'{name}: {places}')


class Logs(Shell):
    """Undoes the set-up of oslo.log, which is global to the process."""

    def setUp(self):
        super().setUp()
        root, kiln = logging.getLogger(), logging.getLogger('kiln')
        for logger in (root, kiln):
            self.addCleanup(logger.setLevel, logger.level)
        self.addCleanup(setattr, sys, 'excepthook', sys.excepthook)
        self.before = root.handlers[:]
        self.addCleanup(self.forget)
        # One failure opens the circuit, and the log reports it.
        self.faulty = self.folder / 'faulty.conf'
        self.faulty.write_text(
            '[compute]\ndefault_backend = faulty\n[compute:faulty]\ndriver = noop\n'
            'faults = *:refuse\ncircuit_minimum_calls = 1\ncall_timeout = 2\n'
        )
        self.log = self.folder / 'kiln.log'

    def forget(self):
        root = logging.getLogger()
        for handler in set(root.handlers) - set(self.before):
            handler.close()
        root.handlers[:] = self.before

    def test_the_log_of_an_upgrade_has_no_lines_of_the_library_of_migrations(self):
        (self.folder / 'state').mkdir()
        self.ok('--log-file', str(self.log), '--debug', 'db', 'upgrade')
        self.assertNotIn('alembic', self.log.read_text())

    def test_the_log_goes_to_the_file_of_the_option_or_the_configuration(self):
        configured = self.folder / 'log.conf'
        configured.write_text(f'[DEFAULT]\nlog_file = {self.log}\n')
        for option in (['--log-file', str(self.log)], ['--config-file', str(configured)]):
            with self.subTest(option[0]):
                argv = ['--config-file', str(self.faulty), *option, 'compute', 'list']
                self.run_bare(*argv)
                self.forget()
                self.assertEqual(1, self.err.count('\n'), self.err)
                opened = r'Circuit faulty/read: closed -> open, after: .*refuses all calls'
                self.assertRegex(self.log.read_text(), opened)
                self.log.unlink()

    def test_other_users_cannot_read_the_log_even_after_a_rotation(self):
        """Finding L8: logs had the mode that the umask left."""
        argv = ['--config-file', str(self.faulty), '--log-file', str(self.log), 'compute', 'list']
        former = os.umask(0)
        self.addCleanup(os.umask, former)
        self.run_bare(*argv)
        self.assertEqual(0o640, stat.S_IMODE(self.log.stat().st_mode))
        self.log.rename(self.folder / 'kiln.log.1')
        logging.getLogger('kiln').error('after the rotation')
        self.assertIn('after the rotation', self.log.read_text())
        self.assertEqual(0o640, stat.S_IMODE(self.log.stat().st_mode))
        # What else a command writes has the mode that its user wants.
        self.assertEqual(0, os.umask(0))

    def test_verbose_prints_the_log_beside_the_error(self):
        self.run_bare('--config-file', str(self.faulty), '-v', 'compute', 'list')
        self.assertIn('Circuit faulty/read: closed -> open', self.err)
        self.assertRegex(self.err, r'\nkiln: C.*refuses all calls')

    def test_a_log_that_cannot_be_opened_is_one_line(self):
        self.assertEqual(2, self.sh('--log-file', '/nowhere/kiln.log', 'compute', 'list'))
        self.assertRegex(self.err, r'^kiln: Cannot set up the log: .*\n$')

    def test_secrets_are_in_no_format_error_or_log(self):
        secret = self.folder / 'secret'
        secret.write_text('hush-a-bye')
        for more in (['-f', 'json'], ['--flavor', 'impossible'], ['--flavor', 'none']):
            for logged in (['--debug'], ['--debug', '--log-file', str(self.log)]):
                with self.subTest(more=more, logged=logged):
                    self.sh(
                        *logged, '--backend', 'noop', 'compute', 'build', '--wait',
                        '--key', 'hush-a-bye', *more, '--file', f'/etc/key={secret}',
                        '--user-data', str(secret),
                    )  # fmt: skip
                    self.forget()
                    self.assertTrue(self.out + self.err)
                    self.assertNotIn('hush', self.out + self.err)
        self.assertNotIn('hush', self.log.read_text())


class Version(Shell):
    def test_the_version_is_one_line(self):
        self.assertEqual(0, self.run_bare('--version'))
        self.assertRegex(self.out, r'^kiln \d+\.\d+\S*\n$')
        self.assertEqual('', self.err)


class Processes(unittest.TestCase):
    """For processes and signals see tests/functional/cli."""

    def loaded_by(self, *commands):
        """Run commands in turn; return the names of all loaded modules after each."""
        code = (
            'import sys, io, os; from kiln.cli.app import KilnApp\n'
            f'for argv in {commands!r}:\n'
            '    KilnApp(stdout=io.StringIO()).run(argv)\n'
            '    print(*sys.modules, flush=True)\n'
            'os._exit(0)'
        )
        done = subprocess.run(
            [sys.executable, '-c', code],
            capture_output=True,
            text=True,
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
        )
        self.assertEqual('', done.stderr)
        return [set(line.split()) for line in done.stdout.splitlines()]

    def test_commands_import_only_what_they_need(self):
        of_version, of_list = self.loaded_by(
            ['--version'], ['--config-file', os.devnull, 'compute', 'list']
        )[-2:]
        with self.subTest('the version needs nothing that builds machines'):
            self.assertIn('cliff.app', of_version)
            heavy = {
                'cmd2', 'futurist', 'kiln.compute.facade', 'kiln.conf', 'kiln.compute.loading',
                'opentelemetry', 'oslo_config', 'oslo_log.log', 'prometheus_client',
                'pybreaker', 'redis', 'rich',
            }  # fmt: skip
            self.assertEqual(set(), of_version & heavy)
        with self.subTest('a list needs neither rich nor oslo.log'):
            self.assertTrue(of_list >= {'kiln.compute.facade', 'futurist'})
            self.assertEqual(set(), of_list & {'rich', 'oslo_log.log', 'cmd2'})

    def test_a_command_that_reads_the_store_imports_no_guards_of_backends(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        file = pathlib.Path(folder, 'kiln.conf')
        file.write_text(f'[db]\nurl = sqlite:///{folder}/kiln.db\n')
        of_list = self.loaded_by(['--config-file', str(file), 'cluster', 'list'])[-1]
        self.assertIn('kiln.cluster_service.service', of_list)
        guards = {'kiln.compute.facade', 'kiln.wrappers.executor.executor', 'pybreaker', 'redis'}
        self.assertEqual(set(), of_list & guards)

    def test_a_command_does_not_look_through_what_is_installed(self):
        code = (
            'import io, os, cliff.command; from kiln.cli.app import KilnApp\n'
            "KilnApp(stdout=io.StringIO()).run(['--config-file', os.devnull, 'compute', 'list'])\n"
            'print(cliff.command._dists_by_mods, flush=True); os._exit(0)'
        )
        done = subprocess.run(
            [sys.executable, '-c', code], capture_output=True, text=True,
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
        )  # fmt: skip
        self.assertEqual(('None\n', ''), (done.stdout, done.stderr))

    def test_what_a_thread_logs_while_the_command_ends_is_not_shown(self):
        code = (
            'import logging, os, sys\n'
            'end = os._exit\n'
            "def late(status): logging.getLogger('library').warning('late'); end(status)\n"
            'os._exit = late\n'
            "sys.argv[1:] = ['--version']\n"
            'from kiln.cli.main import main; main()'
        )
        done = subprocess.run(
            [sys.executable, '-c', code], capture_output=True, text=True,
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
        )  # fmt: skip
        self.assertEqual((0, ''), (done.returncode, done.stderr))

    def test_a_closed_pipe_ends_the_command_silently(self):
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
