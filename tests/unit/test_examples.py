"""The programs that the documentation shows run, and print what they say."""

import contextlib
import io
import pathlib
import re
import unittest

EXAMPLES = pathlib.Path(__file__).parents[2] / 'doc' / 'examples'


class Examples(unittest.TestCase):
    def test_each_prints_what_its_comments_say(self):
        programs = sorted(EXAMPLES.glob('*.py'))
        self.assertTrue(programs)
        for program in programs:
            with self.subTest(program.name):
                code = program.read_text()
                expected = re.findall(r'^ *print\(.*\)  # (.*)$', code, re.MULTILINE)
                self.assertTrue(expected)
                said = io.StringIO()
                with contextlib.redirect_stdout(said):
                    exec(compile(code, program, 'exec'), {})
                self.assertEqual(expected, said.getvalue().splitlines())
