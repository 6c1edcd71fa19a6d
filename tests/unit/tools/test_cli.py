"""The command line of the development cloud, as far as it needs no cloud."""

import contextlib
import io
import pathlib
import tempfile
import unittest

from tools.devcloud import cli
from tools.devcloud.wishes import Wishes


class CommandTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_command(self, *arguments):
        self.out, self.err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.err):
            try:
                return cli.main(['--home', str(self.home), *arguments])
            except SystemExit as leave:
                return leave.code

    def test_a_cloud_that_was_never_up_says_so(self):
        self.assertEqual(cli.STOPPED, self.run_command('status'))
        self.assertIn('nothing runs', self.out.getvalue())

    def test_down_needs_nothing_to_be_up(self):
        self.assertEqual(0, self.run_command('down', '--wipe'))

    def test_env_is_for_a_shell(self):
        self.assertEqual(0, self.run_command('env'))
        self.assertIn(f'OS_CLIENT_CONFIG_FILE={self.home}/clouds.yaml', self.out.getvalue())

    def test_logs_are_listed_or_shown(self):
        (self.home / 'log').mkdir()
        (self.home / 'log' / 'nova-api.log').write_text('one\ntwo\n')
        self.run_command('logs')
        self.assertEqual('nova-api\n', self.out.getvalue())
        self.run_command('logs', 'nova-api', '-n', '1')
        self.assertTrue(self.out.getvalue().endswith('nova-api.log:\ntwo\n'))

    def test_mistakes_are_one_line_each(self):
        Wishes(10000, hosts=1).save(self.home / 'wishes.json')
        for arguments, words in (
            (['logs', 'nosuch'], 'no such log'),
            (['up', '--port-base', '1'], 'start at 10000'),
            (['reset'], 'mariadb'),
            (['up', '--with', 'cinder'], 'cinder: there are heat, ironic, octavia'),
            (['up', '--set', 'nova.debug'], 'SERVICE.SECTION.OPTION=VALUE'),
        ):
            with self.subTest(arguments):
                self.assertNotEqual(0, self.run_command(*arguments))
                last = self.err.getvalue().splitlines()[-1]
                self.assertIn(words, last)
