"""Counts become a table of places, and a resize changes them."""

import collections
import dataclasses
import random
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.clusters.exceptions import InvalidCluster
from kiln.clusters.placing.counts import check_count, from_index_maps, resized, shares, table
from kiln.clusters.spec import MOST_NODES, Place, Shape, ZoneRule, Zones
from tests.unit.engine.groups import SPREAD, UNTIMED, ZONES, counted, even, shapes, split, wanted


def plain(found):
    return {tuple(dataclasses.astuple(place)): count for place, count in found.items()}


def sums(found, axis):
    counts = collections.Counter()
    for place, count in found.items():
        counts[getattr(place, axis)] += count
    return dict(counts)


def positive(counts):
    return {key: count for key, count in counts.items() if count}


def shuffled(counts, seed):
    items = list(counts.items())
    random.Random(seed).shuffle(items)
    return dict(items)


class Shares(unittest.TestCase):
    def test_the_largest_remainder_wins_and_ties_go_to_the_first(self):
        self.assertEqual([3, 2, 2], shares(7, [1, 1, 1]))
        self.assertEqual([7, 3], shares(10, [2, 1]))

    def test_zero_weights_are_an_even_split(self):
        self.assertEqual([2, 1], shares(3, [0, 0]))

    @UNTIMED
    @given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.data())
    def test_shares_add_up_and_never_exceed_their_weights(self, weights, data):
        amount = data.draw(st.integers(0, sum(weights)))
        found = shares(amount, weights)
        self.assertEqual(amount, sum(found))
        self.assertTrue(all(part <= weight for part, weight in zip(found, weights, strict=True)))


class Tables(unittest.TestCase):
    def test_003_9_ten_of_flavor_x_and_five_of_flavor_y_over_two_zones(self):
        shape = Shape(count=15, flavors={'y': 5, 'x': 10}, zones=counted(az2=7, az1=8))
        self.assertEqual(
            {('x', 'az1'): 5, ('x', 'az2'): 5, ('y', 'az1'): 3, ('y', 'az2'): 2},
            plain(table(shape)),
        )

    def test_003_1_a_spread_is_over_all_zones_the_backend_has(self):
        shape = Shape(count=4, zones=SPREAD)
        self.assertEqual(
            {('m', 'a'): 2, ('m', 'b'): 1, ('m', 'c'): 1},
            plain(table(shape, ('c', 'a', 'b', 'a'), flavor='m')),
        )

    def test_003_1_a_spread_over_unknown_zones_leaves_them_open(self):
        self.assertEqual({(None, None): 2}, plain(table(Shape(count=2, zones=SPREAD))))

    def test_003_1_the_first_named_zone_gets_the_remainder(self):
        shape = Shape(count=3, zones=even('b', 'a', 'b'))
        self.assertEqual({('m', 'b'): 2, ('m', 'a'): 1}, plain(table(shape, flavor='m')))

    def test_zones_that_do_not_matter_are_left_open(self):
        self.assertEqual({('m', None): 3}, plain(table(Shape(count=3), ZONES, flavor='m')))

    def test_placements_are_taken_as_they_are(self):
        placements = {Place('x', 'b'): 2, Place('x', 'a'): 1, Place('y', 'a'): 0}
        found = table(Shape(count=3, placements=placements), ZONES)
        self.assertEqual([(('x', 'a'), 1), (('x', 'b'), 2)], list(plain(found).items()))

    def test_counts_that_do_not_add_up_are_all_named(self):
        shape = Shape(
            count=3, flavors={'x': 2}, zones=counted(a=4), placements={Place('x', 'a'): 3}
        )
        with self.assertRaises(InvalidCluster) as caught:
            table(shape)
        self.assertEqual(['flavors', 'zones'], [one.path for one in caught.exception.problems])
        self.assertIn('add up to 2, not to 3', str(caught.exception))

    @UNTIMED
    @given(shapes(most=200))
    def test_003_9_both_counts_are_met_exactly(self, shape):
        found = table(shape, ZONES, flavor='m')
        self.assertEqual(shape.count, sum(found.values()))
        self.assertTrue(all(count > 0 for count in found.values()))
        if shape.flavors:
            self.assertEqual(positive(shape.flavors), sums(found, 'flavor'))
        if shape.zones.counts:
            self.assertEqual(positive(shape.zones.counts), sums(found, 'zone'))

    @UNTIMED
    @given(shapes(most=200))
    def test_003_1_even_zones_differ_by_one_node_at_most(self, shape):
        rule = shape.zones.rule
        if rule in (ZoneRule.EVEN, ZoneRule.SPREAD):
            found = sums(table(shape, ZONES, flavor='m'), 'zone')
            names = shape.zones.names or ZONES
            counts = [found.get(zone, 0) for zone in names]
            self.assertEqual(shape.count, sum(counts))
            self.assertLessEqual(max(counts) - min(counts), 1)

    @UNTIMED
    @given(shapes(), st.integers())
    def test_003_9_the_order_of_counts_and_of_known_zones_changes_nothing(self, shape, seed):
        zones = dataclasses.replace(shape.zones, counts=shuffled(shape.zones.counts, seed))
        other = Shape(
            count=shape.count,
            flavors=shuffled(shape.flavors, seed),
            zones=zones,
            placements=shuffled(shape.placements, seed),
        )
        found = table(shape, ZONES)
        self.assertEqual(list(found.items()), list(table(other, reversed(ZONES)).items()))


class Resized(unittest.TestCase):
    def test_003_4_a_removed_node_reduces_its_own_flavor_and_zone(self):
        shape = Shape(count=15, flavors={'x': 10, 'y': 5}, zones=counted(az1=8, az2=7))
        found = resized(shape, 12, [Place('y', 'az2')] * 3)
        self.assertEqual({'x': 10, 'y': 2}, dict(found.flavors))
        self.assertEqual({'az1': 8, 'az2': 4}, dict(found.zones.counts))

    def test_without_named_nodes_counts_shrink_in_proportion(self):
        found = resized(Shape(count=15, flavors={'x': 10, 'y': 5}), 12)
        self.assertEqual({'x': 8, 'y': 4}, dict(found.flavors))

    def test_a_removed_node_is_replaced_if_the_count_stays(self):
        shape = Shape(count=2, flavors={'x': 1, 'y': 1})
        self.assertEqual(shape, resized(shape, 2, [Place('x', None)]))

    def test_a_place_without_a_count_reduces_nothing(self):
        found = resized(Shape(count=3, flavors={'x': 2, 'y': 1}), 2, [Place('z', None)])
        self.assertEqual({'x': 1, 'y': 1}, dict(found.flavors))

    def test_a_tie_is_decided_by_name(self):
        for names in ('ab', 'ba'):
            found = resized(Shape(count=2, flavors=dict.fromkeys(names, 1)), 3)
            self.assertEqual({'a': 2, 'b': 1}, dict(found.flavors))

    def test_placements_shrink_where_a_node_is_removed(self):
        shape = Shape(count=4, placements={Place('x', 'a'): 3, Place('y', 'b'): 1})
        found = resized(shape, 3, [Place('y', 'b')])
        self.assertEqual({Place('x', 'a'): 3, Place('y', 'b'): 0}, dict(found.placements))

    def test_it_grows_again_from_nothing(self):
        empty = resized(Shape(count=2, flavors={'x': 1, 'y': 1}), 0)
        self.assertEqual({'x': 2, 'y': 1}, dict(resized(empty, 3).flavors))

    def test_a_count_below_zero_is_refused(self):
        with self.assertRaises(InvalidCluster):
            resized(Shape(count=1), -1)

    @UNTIMED
    @given(shapes(), st.integers(0, 60))
    def test_no_count_moves_against_the_whole(self, shape, count):
        found = resized(shape, count)
        table(found, ZONES)  # adds up
        for before, after in (
            (shape.flavors, found.flavors),
            (shape.zones.counts, found.zones.counts),
            (shape.placements, found.placements),
        ):
            self.assertEqual(list(before), list(after))
            for key in before:
                change = after[key] - before[key]
                self.assertGreaterEqual(change * (count - shape.count), 0)

    @UNTIMED
    @given(split(20, ('x', 'y', 'z')), st.data())
    def test_003_4_removed_nodes_leave_all_other_counts_alone(self, flavors, data):
        every = [flavor for flavor, count in flavors.items() for _ in range(count)]
        picked = data.draw(st.permutations(every))[: data.draw(st.integers(0, 20))]
        found = resized(
            Shape(count=20, flavors=flavors),
            20 - len(picked),
            [Place(flavor, 'az1') for flavor in picked],
        )
        left = collections.Counter(flavors) - collections.Counter(picked)
        self.assertEqual(left, +collections.Counter(found.flavors))


class Bounds(unittest.TestCase):
    def test_a_count_within_bounds_is_no_problem(self):
        group = wanted(3, min_count=1, max_count=3).group
        self.assertEqual(((), ()), (check_count(group, 1), check_count(group, 3)))

    def test_a_count_beyond_a_bound_names_the_bound(self):
        group = wanted(3, min_count=1, max_count=3).group
        (low,), (high,) = check_count(group, 0), check_count(group, 4)
        self.assertIn('0 nodes, fewer than its min_count of 1', low.message)
        self.assertIn('4 nodes, more than its max_count of 3', high.message)
        self.assertEqual('nodegroups[work].count', low.path)

    def test_without_a_maximum_the_count_is_limited_by_what_can_be_planned(self):
        group = wanted(3).group
        self.assertEqual((), check_count(group, MOST_NODES))
        (high,) = check_count(group, MOST_NODES + 1)
        self.assertIn('10001 nodes, more than the 10000 of the largest group', high.message)


class IndexMaps(unittest.TestCase):
    def test_003_5_maps_by_index_become_placements(self):
        found = from_index_maps(
            {'0': 'az1', '1': 'az2', '2': 'az1', '5': 'az1'},
            {'0': 'foo', '1': 'foo', '2': 'bar', '5': 'foo'},
        )
        self.assertEqual(
            {('foo', 'az1'): 2, ('foo', 'az2'): 1, ('bar', 'az1'): 1}, plain(table(found))
        )
        self.assertEqual(4, found.count)

    def test_003_5_a_map_that_is_missing_leaves_its_property_open(self):
        flavors = from_index_maps({}, {'0': 'foo', '1': 'bar'})
        self.assertEqual(({'foo': 1, 'bar': 1}, Zones()), (dict(flavors.flavors), flavors.zones))
        zones = from_index_maps({'0': 'az1', '1': 'az1'}, {})
        self.assertEqual({(None, 'az1'): 2}, plain(table(zones)))

    def test_003_5_an_index_in_one_map_only_is_named(self):
        with self.assertRaises(InvalidCluster) as caught:
            from_index_maps({'0': 'az1', '1': 'az1'}, {'0': 'foo', '2': 'foo'})
        self.assertEqual(
            [('az_map', 'Index 2'), ('flavor_map', 'Index 1')],
            [(one.path, one.message[:7]) for one in caught.exception.problems],
        )
