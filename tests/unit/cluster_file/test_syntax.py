"""What is no YAML is told in plain words, where the mistake was made."""

import unittest

from kiln.cluster_file.syntax import Complaint, advice
from tests.unit.cluster_file.test_mistakes import problems


class Syntax(unittest.TestCase):
    def test_the_place_is_where_the_mistake_was_made(self):
        for text, place, said in (
            ('a: 1\n\n# why\nb\nc: 2', (4, 1), "a ':' is missing after this"),
            ('a\n\nc: 2', (1, 1), "a ':' is missing in this line"),
            ('a:1\nc: 2', (1, 2), "a space is missing after ':'"),
            ('- a:1\n  c: 2', (1, 4), "a space is missing after ':'"),
            ('a: b: c', (1, 5), "a second ': '"),
            ('a: 1\n  b: 2', (2, 3), 'further to the right'),
            ('a:\n\t- 1', (2, 1), 'a tab'),
            ('a: [1\nb: 2', (1, 4), 'not closed; write ]'),
            ('a: {b: 1\n', (1, 4), 'not closed; write }'),
            ('{a: b}}', (1, 7), '} closes nothing'),
            ('a: b\n]', (2, 1), '] closes nothing'),
            ("a: 'b", (1, 4), 'the quote that opens here'),
            ('a: "b\n---\nc: d"', (1, 4), 'the quote that opens here'),
            ('a: "b\\c"', (1, 7), 'a backslash'),
            ('%YAML 1.2\n---\n', (1, 1), 'a line that begins with %'),
            ('%YAML new\n---\n', (1, 7), 'a line that begins with %'),
            ('%YAML 2.0\n---\n', (1, 1), 'a line that begins with %'),
            ('a\n... b', (2, 5), 'the document has ended'),
            ('a: !<b', (1, 4), 'begins with ! is a tag'),
        ):
            with self.subTest(text):
                found = [(one.line, one.column, one.message) for one in problems(text)]
                self.assertIn(place, [one[:2] for one in found])
                self.assertIn(said, str(found))

    def test_what_a_newer_pyyaml_may_object_to_is_passed_on(self):
        found = advice(Complaint(problem='found the unforeseen', line=0, column=2), ['a b'])
        self.assertEqual(('this is no YAML: found the unforeseen', 0, 2), (
            found.message, found.line, found.column,
        ))  # fmt: skip
