"""Mutants of the drivers in tree: each is one valid change, in the place that it names."""

import ast
import pathlib
import textwrap
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

import kiln
from kiln.testing.mutants.mutants import mutants_of
from kiln.testing.mutants.operators import CLUSTER_OPERATORS, OPERATORS
from tests.examples import examples

ROOT = pathlib.Path(kiln.__file__).parent
SOURCES = sorted(
    [
        *(ROOT / 'compute_drivers').rglob('*.py'),
        *(ROOT / 'cluster_drivers').rglob('*.py'),
        ROOT / 'testing' / 'minimal.py',
    ]
)
EVERY = sorted({**OPERATORS, **CLUSTER_OPERATORS})

SOURCE = textwrap.dedent(
    """
    class Driver:
        def look(self):
            def act():
                return a(one=1, two=2), b(one=1, two=2)
            return act()
    """
).lstrip()


class MutantsOfDrivers(unittest.TestCase):
    @settings(max_examples=examples(12), deadline=None)
    @given(path=st.sampled_from(SOURCES), operator=st.sampled_from(EVERY))
    def test_each_is_one_valid_change_in_the_statement_that_it_names(self, path, operator):
        text = path.read_text()
        tree = ast.parse(text)
        mutants = mutants_of('acme', text, [operator])
        self.assertEqual(len(mutants), len({one.source for one in mutants}))
        self.assertEqual(len(mutants), len({one.key for one in mutants}))
        for mutant in mutants:
            self.assertNotEqual(ast.dump(tree), ast.dump(ast.parse(mutant.source)))
            lines, changed = text.splitlines(), mutant.source.splitlines()
            self.assertEqual(lines[: mutant.line - 1], changed[: mutant.line - 1])
            # All that follows the statement is as it was.
            end = min(one.end_lineno for one in tree.body if one.end_lineno >= mutant.line)
            self.assertEqual(lines[end:], changed[len(changed) - (len(lines) - end) :])


class Places(unittest.TestCase):
    def test_a_place_is_named_by_its_functions_and_equal_changes_are_counted(self):
        mutants = mutants_of('acme', SOURCE, ['drop_field'])
        self.assertEqual({'acme:Driver.look.act'}, {one.place for one in mutants})
        self.assertEqual(
            ['drop: one=1', 'drop: two=2', 'drop: one=1 (2)', 'drop: two=2 (2)'],
            [one.change for one in mutants],
        )

    def test_a_diff_shows_the_change_alone(self):
        mutant = mutants_of('acme', SOURCE, ['return_early'])[0]
        self.assertEqual(['+        return None'], [
            line for line in mutant.diff() if line.startswith(('+', '-'))])  # fmt: skip

    def test_what_a_change_moves_behind_it_keeps_its_name(self):
        moved = mutants_of('acme', f'import os\n\n\n{SOURCE}')
        self.assertEqual([one.key for one in mutants_of('acme', SOURCE)], [
            one.key for one in moved])  # fmt: skip

    def test_text_outside_ascii_is_kept(self):
        source = "x = f(one='ä', two=ö)\ny = f('é')[:1]\n"
        for mutant in mutants_of('acme', source):
            self.assertIn('é', mutant.source)
