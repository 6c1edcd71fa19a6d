"""Each sentence of the compute contract is shown by a behaviour, and no row is out of date.

That a wrong driver is caught by its behaviours is tested in test_zoo.
"""

import unittest

from kiln.testing.conformance.suite import behaviours
from tests.kit.zoo import ZOO
from tools import contract_table

NAMES = {animal.__name__ for animal in ZOO}


class ContractTableTest(unittest.TestCase):
    maxDiff = None

    def test_each_sentence_has_a_row_and_each_row_a_sentence(self):
        said = {(place, one) for place, all_ in contract_table.sentences().items() for one in all_}
        rows = {(place, one) for place, all_ in contract_table.rows().items() for one in all_}
        self.assertEqual([], sorted(said - rows), 'run: python -m tools.contract_table --missing')
        self.assertEqual([], sorted(rows - said), 'these stand nowhere; correct or delete them')

    def test_each_sentence_is_broken_by_a_wrong_driver_or_has_a_reason(self):
        holes = [
            f'{row.place}: {row.sentence}'
            for row in contract_table.table()
            if not row.behaviours and not row.reason
        ]
        self.assertEqual([], holes)

    def test_each_wrong_driver_in_a_row_is_in_the_zoo(self):
        named = {one for row in contract_table.table() for one in row.wrong_drivers}
        self.assertEqual([], sorted(named - NAMES))

    def test_each_wrong_driver_breaks_a_sentence(self):
        named = {one for row in contract_table.table() for one in row.wrong_drivers}
        self.assertEqual([], sorted(NAMES - named), 'add the sentence that they break')

    def test_each_behaviour_catches_a_wrong_driver(self):
        caught = {name for names in ZOO.values() for name in names}
        self.assertEqual([], sorted({name for _, _, name in behaviours()} - caught))


class SentencesTest(unittest.TestCase):
    def test_a_docstring_is_split_at_its_full_stops_and_errors(self):
        text = """Build it; return its id.

        Safe to repeat. ``x`` is raw,
        and kiln reads it. kiln too.

        :raises A: no. Really.
        :raises B: never.
        """
        self.assertEqual(
            [
                'Build it; return its id.',
                'Safe to repeat.',
                '``x`` is raw, and kiln reads it.',
                'kiln too.',
                ':raises A: no. Really.',
                ':raises B: never.',
            ],
            contract_table.split(text),
        )

    def test_programs_and_tables_of_the_guide_are_left_out(self):
        text = (
            'Title\n=====\n\nFirst. Run::\n\n    $ it. No\n\n    more\n\n'
            '``term``\n    Is this.\n\n=== ===\na   B. C\n=== ===\n\n'
            '.. code-block:: python\n\n    A. B\n\nLast.\n\n'
            'Other\n=====\n\nNot this.\n'
        )
        self.assertEqual(
            ['First.', 'Run::', '``term``: Is this.', 'Last.'],
            list(contract_table.guide_sentences(text, 'Title')),
        )
