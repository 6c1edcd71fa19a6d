"""YAML syntax errors: explanation and position."""

import unittest

import yaml

from kiln.yaml_schema.syntax_errors import advice
from tests.unit.yaml_schema.test_mistake_list import problems


class Syntax(unittest.TestCase):
    def test_the_position_is_that_of_the_mistake(self):
        for text, place, said in (
            ('a: 1\n\n# why\nb\nc: 2', (4, 1), "a ':' is missing after this"),
            ('a\n\nc: 2', (1, 1), "a ':' is missing in this line"),
            ('a:1\nc: 2', (1, 2), "a space is missing after ':'"),
            ('- a:1\n  c: 2', (1, 4), "a space is missing after ':'"),
            ('a: b: c', (1, 5), "a second ': '"),
            ('a: 1\n  b: 2', (2, 3), 'indented below a line that already has a value'),
            ('a:\n\t- 1', (2, 1), 'with a tab'),
            ('a: [1\nb: 2', (1, 4), 'not closed; write ]'),
            ('a: {b: 1\n', (1, 4), 'not closed; write }'),
            ('{a: b}}', (1, 7), '} closes nothing'),
            ('a: b\n]', (2, 1), '] closes nothing'),
            ("a: 'b", (1, 4), 'the quote opened here'),
            ('a: "b\n---\nc: d"', (1, 4), 'the quote opened here'),
            ('a: "b\\c"', (1, 7), 'a backslash'),
            ('%YAML 1.2\n---\n', (1, 1), 'a line that begins with %'),
            ('%YAML new\n---\n', (1, 7), 'a line that begins with %'),
            ('%YAML 2.0\n---\n', (1, 1), 'a line that begins with %'),
            ('a\n... b', (2, 5), 'the document ended'),
            ('a: !<b', (1, 4), 'begins with ! is a tag'),
        ):
            with self.subTest(text):
                found = [(one.line, one.column, one.message) for one in problems(text)]
                self.assertIn(place, [one[:2] for one in found])
                self.assertIn(said, str(found))

    def test_an_unknown_error_of_pyyaml_is_passed_on(self):
        mark = yaml.Mark('', 2, 0, 2, None, 0)
        error = yaml.MarkedYAMLError(problem='found the unforeseen', problem_mark=mark)
        self.assertEqual(
            ('this is not YAML: found the unforeseen', 0, 2), tuple(advice(error, ['a b']))
        )
