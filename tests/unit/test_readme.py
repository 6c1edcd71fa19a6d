"""The examples of the README work as shown."""

import contextlib
import io
import pathlib
import re
import textwrap
import unittest

ROOT = pathlib.Path(__file__).parents[2]


class Readme(unittest.TestCase):
    def test_the_controller_in_ten_lines_runs(self):
        text = (ROOT / 'README.rst').read_text()
        (code,) = re.findall(r'\.\. code-block:: python\n\n((?:   .*\n|\n)+)', text)
        self.assertLessEqual(len(code.strip().splitlines()), 10)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(textwrap.dedent(code), {})
        # The callback runs on a separate thread.
        self.assertEqual(['active', 'build succeeded'], sorted(said.getvalue().splitlines()))

    def test_the_two_commands_are_targets_of_the_makefile(self):
        makefile = (ROOT / 'Makefile').read_text()
        for command in ('demo', 'test'):
            self.assertIn(f'make {command}', (ROOT / 'README.rst').read_text())
            self.assertRegex(makefile, rf'(?m)^{command}:')
