"""Tests of values as output for people and for programs."""

import unittest

from kiln.cli.output.cluster_fields import node_fields
from kiln.cli.output.views import BRIEF, COLUMNS, Cell, age, amphora_fields, cells, moment
from kiln.models import Amphora, State
from tests.unit.db import samples


class Cells(unittest.TestCase):
    def test_cells_are_words_for_people_and_values_for_programs(self):
        for value, words in {
            None: '', True: 'yes', False: 'no', 3: '3', ('a',): "('a',)",
        }.items():  # fmt: skip
            self.assertEqual(words, Cell(value).human_readable())
            self.assertEqual(value, Cell(value).machine_readable())
        self.assertEqual('a, b', Cell(['a', 'b']).human_readable())
        self.assertEqual('k=v, l=w', Cell({'k': 'v', 'l': 'w'}).human_readable())

    def test_missing_values_are_sorted_last(self):
        ordered = [cell.machine_readable() for cell in sorted(cells([None, 'b', 'a', None]))]
        self.assertEqual(['a', 'b', None, None], ordered)


class Times(unittest.TestCase):
    def test_an_age_has_its_two_largest_units(self):
        for seconds, text in {
            0: '0s', 59.9: '59s', 60: '1m 0s', 3_725: '1h 2m', 90_000: '1d 1h', -5: '0s',
        }.items():  # fmt: skip
            self.assertEqual(text, age(seconds))
        self.assertIsNone(age(None))

    def test_a_moment_is_iso_8601_in_utc(self):
        self.assertEqual('2023-11-14T22:13:20Z', moment(1_700_000_000.4))
        self.assertIsNone(moment(None))


class Fields(unittest.TestCase):
    def test_an_amphora_is_shown_with_its_flavor_image_and_age(self):
        amphora = Amphora(
            id='1', name='a', state=State.ACTIVE, flavor='tiny', image_id='debian', created_at=60.0
        )
        shown = amphora_fields(amphora, 180.0)
        told = tuple(shown[name] for name in ('flavor', 'image', 'age'))
        self.assertEqual(('tiny', 'debian', '2m 0s'), told)

    def test_brief_columns_come_first_and_nothing_raw_is_shown(self):
        amphora = Amphora(id='1', name='a', state=State.ACTIVE, raw={'adminPass': 'x'})
        shown = amphora_fields(amphora)
        self.assertEqual(COLUMNS, tuple(shown))
        self.assertEqual(BRIEF, COLUMNS[: len(BRIEF)])
        self.assertNotIn('adminPass', str(shown))

    def test_a_node_is_shown_in_its_requested_zone_or_else_in_that_of_its_machine(self):
        for asked, found, shown in (
            ('az1', None, 'az1'),
            (None, 'az3', 'az3'),
            (None, None, None),
        ):
            node = samples.node(place=samples.Place('small', asked), found_zone=found)
            self.assertEqual(shown, node_fields(node)['zone'])
