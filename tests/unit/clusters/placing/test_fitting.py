"""The largest number of nodes stays that both counts allow."""

import itertools
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.clusters.placing.fitting import fitting
from kiln.clusters.spec import Place
from tests.unit.engine.groups import UNTIMED

FLAVORS, ZONES = ('x', 'y'), ('a', 'b', 'c')
CELLS = [Place(flavor, zone) for flavor in FLAVORS for zone in ZONES]


def along(counts, axis, name):
    return sum(count for place, count in counts.items() if getattr(place, axis) == name)


def fits(counts, flavors, zones):
    return all(along(counts, 'flavor', name) <= flavors.get(name, 0) for name in FLAVORS) and all(
        along(counts, 'zone', name) <= zones.get(name, 0) for name in ZONES
    )


def most(existing, flavors, zones):
    """Return by exhaustive search how many can stay."""
    every = itertools.product(*(range(existing[place] + 1) for place in CELLS))
    trials = (dict(zip(CELLS, counts, strict=True)) for counts in every)
    return max(sum(trial.values()) for trial in trials if fits(trial, flavors, zones))


class Fitting(unittest.TestCase):
    def test_one_node_is_given_up_if_two_others_can_stay(self):
        existing = {Place('x', 'a'): 1, Place('x', 'b'): 1, Place('y', 'a'): 1}
        kept = fitting(existing, {'x': 1, 'y': 1}, {'a': 1, 'b': 1})
        self.assertEqual({Place('x', 'a'): 0, Place('x', 'b'): 1, Place('y', 'a'): 1}, kept)

    def test_a_place_without_a_count_cannot_stay(self):
        existing = {Place('z', 'a'): 1, Place('x', 'c'): 1, Place(None, None): 1}
        self.assertEqual(0, sum(fitting(existing, {'x': 1}, {'a': 1}).values()))

    @UNTIMED
    @given(st.data())
    def test_as_many_stay_as_an_exhaustive_search_finds(self, data):
        small = st.integers(0, 2)
        existing = {place: data.draw(small) for place in CELLS}
        flavors = {name: data.draw(st.integers(0, 4)) for name in FLAVORS}
        zones = {name: data.draw(st.integers(0, 3)) for name in ZONES}
        kept = fitting(existing, flavors, zones)
        self.assertTrue(fits(kept, flavors, zones))
        self.assertTrue(all(0 <= kept[place] <= existing[place] for place in CELLS))
        self.assertEqual(most(existing, flavors, zones), sum(kept.values()))
