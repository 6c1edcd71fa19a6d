"""The script that sets up .venv, as far as it needs no network."""

import contextlib
import io
import pathlib
import tempfile
import unittest

from tools import environment

PIP = """#!/bin/sh
echo "$@" >> "$0.asked"
cat <<'END'
Collecting cliff>=4.5
Installing collected packages: wcwidth, rich, cliff
END
exit {status}
"""


class EnvironmentTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        parent = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder = parent / 'an environment für kiln'
        self.programs = self.folder / 'bin'
        self.programs.mkdir(parents=True)

    def interpreter(self, status):
        for name in ('python', 'pip'):
            (self.programs / name).write_text(PIP.format(status=status))
            (self.programs / name).chmod(0o755)

    def run_command(self, *arguments):
        self.err = io.StringIO()
        with contextlib.redirect_stderr(self.err):
            return environment.main([str(self.folder), *arguments])

    def asked(self):
        return (self.programs / 'python.asked').read_text()

    def test_it_says_what_it_does_and_how_many_packages_there_are(self):
        self.interpreter(0)
        self.assertEqual(0, self.run_command('clusters', 'docker'))
        said = [line.split(' s  ')[1] for line in self.err.getvalue().splitlines()]
        self.assertEqual(
            [
                'fetching what kiln needs for: clusters, docker',
                'installing 3 packages',
                f'{self.folder} is ready',
            ],
            said,
        )
        self.assertTrue(self.asked().endswith('-e .[clusters,docker]\n'))

    def test_the_packages_of_a_file_are_installed_without_kiln(self):
        self.interpreter(0)
        self.assertEqual(0, self.run_command('-r', 'wanted.txt'))
        self.assertTrue(self.asked().endswith('-r wanted.txt\n'))
        self.assertNotIn('-e', self.asked().split())

    def test_an_old_pip_is_replaced_first(self):
        self.interpreter(0)
        packages = self.folder / 'lib' / 'python3.11' / 'site-packages'
        for there, first in ('pip-25.1.1', '-e .[clusters]'), ('pip-23.0.1', '--upgrade pip'):
            with self.subTest(there):
                (packages / f'{there}.dist-info').mkdir(parents=True)
                self.assertEqual(0, self.run_command('clusters'))
                self.assertTrue(self.asked().splitlines()[0].endswith(first), self.asked())
                (self.programs / 'python.asked').unlink()

    def test_what_pip_said_is_shown_when_it_fails(self):
        self.interpreter(1)
        failed = self.run_command('clusters')
        self.assertIn('Collecting cliff>=4.5\n', failed)
        self.assertTrue(failed.endswith('Cannot install what kiln needs: pip says why, above.'))
        self.assertNotIn('ready', self.err.getvalue())

    def test_what_an_interrupted_set_up_left_is_not_taken_for_an_environment(self):
        self.assertFalse(environment.complete(self.folder))
        (self.programs / 'python').touch()
        self.assertFalse(environment.complete(self.folder))
        self.interpreter(0)
        self.assertTrue(environment.complete(self.folder))
