"""The file of survivors: what is read, and each mistake in it."""

import pathlib
import tempfile
import textwrap
import unittest

from kiln.testing.mutants.survivors import InvalidSurvivors, read_survivors

ENTRY = """\
- place: acme.driver:Driver._list
  operator: reverse_order
  change: "a -> list(a)[::-1]"
"""


class SurvivorsTest(unittest.TestCase):
    def read(self, text):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), 'survivors.yaml')
        path.write_text(textwrap.dedent(text))
        return read_survivors(path)

    def problems(self, text):
        with self.assertRaises(InvalidSurvivors) as caught:
            self.read(text)
        return [str(one) for one in caught.exception.problems]

    def test_each_is_known_by_place_mistake_and_change(self):
        found = self.read(f'{ENTRY}  equivalent: the order is free\n')
        key = ('acme.driver:Driver._list', 'reverse_order', 'a -> list(a)[::-1]')
        self.assertEqual([key], list(found))
        self.assertEqual('the order is free', found[key].equivalent)

    def test_a_file_without_entries_knows_none(self):
        self.assertEqual({}, self.read('# none\n'))
        self.assertEqual({}, self.read('[]\n'))

    def test_an_entry_has_one_reason(self):
        for reasons in ('', '  equivalent: a\n  missing: b\n'):
            (problem,) = self.problems(ENTRY + reasons)
            self.assertIn('survivors.yaml:1', problem)
            self.assertIn('write one reason', problem)

    def test_a_mistake_is_named_with_its_line(self):
        (unknown,) = self.problems(f'{ENTRY}  missing: a\n  why: b\n')
        self.assertIn('survivors.yaml:5', unknown)
        self.assertIn('why', unknown)
        self.assertIn('operator is missing', ' '.join(self.problems('- place: a\n  missing: b\n')))

    def test_a_file_that_cannot_be_read_is_named(self):
        with self.assertRaisesRegex(InvalidSurvivors, '/nowhere.*cannot be read'):
            read_survivors(pathlib.Path('/nowhere'))
