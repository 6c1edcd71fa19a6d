"""Nodes that a change of a ledger loses: those that are named, and no other without need."""

import dataclasses
import itertools
import unittest
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kiln.cluster_drivers.heat.ledger import Ledger, LedgerNode
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.placing.counts import resized
from kiln.clusters.spec import Place, Shape, VictimRule, ZoneRule, Zones
from kiln.engine.plan.changes import DesiredGroup
from kiln.engine.plan.diff import resize
from tests.unit.cluster_drivers.heat.made import spec_of
from tests.unit.engine.groups import FLAVORS, UNTIMED, ZONES, shapes, split

ONE = 'cluster: c\nnodegroups:\n  - {{name: work, {}}}\n'
GUIDE = 'flavors: {{big: {}, small: 3}}, zones: [az1, az2]'


def spec(shape):
    return spec_of(ONE.format(shape))


def shaped(shape):
    """Return a cluster with one group of a shape."""
    one = spec('count: 1, flavor: small')
    return dataclasses.replace(one, groups=(dataclasses.replace(one.groups[0], shape=shape),))


def made(shape):
    return Ledger().changed(spec(shape), 1, ())


def old(count, flavor=None):
    """Return a ledger of nodes without zones, and perhaps without flavors."""
    nodes = (LedgerNode('work', number, Place(flavor)) for number in range(1, count + 1))
    return Ledger(nodes=tuple(nodes), last={'work': count}, generation=1)


def names(ledger):
    return [node.name for node in ledger.nodes]


def numbers(ledger):
    return [node.number for node in ledger.nodes]


def after_resize(ledger, declared, count, remove):
    """Return the cluster and the ledger after a resize, as kiln plans one."""
    (group,) = declared.groups
    named = dict.fromkeys(remove, 'named')
    found = resize(DesiredGroup(group=group), ledger.counted(declared), count, named)
    declared = dataclasses.replace(
        declared, groups=(dataclasses.replace(group, shape=found.shape),)
    )
    return declared, ledger.changed(declared, ledger.generation + 1, remove)


class Removal(unittest.TestCase):
    def removed(self, shape, remove, count=None):
        """Return the shape and the numbers after the named removal of some nodes."""
        ledger = made(shape)
        count = len(ledger.nodes) - len(remove) if count is None else count
        declared, found = after_resize(ledger, spec(shape), count, remove)
        return declared.groups[0].shape, numbers(found)

    def test_from_an_even_spread_only_the_named_node_goes(self):
        _, found = self.removed('count: 4, zones: [az1, az2]', ['work-1'])
        self.assertEqual([2, 3, 4], found)

    def test_the_flavor_of_the_named_node_is_what_the_group_loses(self):
        shape, found = self.removed('flavors: {big: 2, small: 3}', ['work-1'])
        self.assertEqual([2, 3, 4, 5], found)
        self.assertEqual({'big': 1, 'small': 3}, dict(shape.flavors))

    def test_the_zone_of_the_named_node_is_what_the_group_loses(self):
        shape, found = self.removed('zones: {az1: 2, az2: 2}', ['work-2'])
        self.assertEqual([1, 3, 4], found)
        self.assertEqual({'az1': 2, 'az2': 1}, dict(shape.zones.counts))

    def test_a_named_node_of_a_group_that_keeps_its_count_is_replaced_alone(self):
        _, found = self.removed('flavors: {big: 2, small: 3}', ['work-1'], count=5)
        self.assertEqual({2, 3, 4, 5, 6}, set(found))

    def test_of_nodes_that_nobody_named_only_as_many_go_as_the_group_shrinks_by(self):
        _, found = self.removed('flavors: {big: 2, small: 3}', ['work-1'], count=2)
        self.assertEqual(2, len(found))
        self.assertLess(max(found), 6)

    def test_counts_with_which_others_would_go_are_refused_by_name(self):
        ledger, shape = made('flavors: {big: 2, small: 3}'), 'flavors: {big: 2, small: 2}'
        with self.assertRaisesRegex(ClusterDriverError, 'Cannot remove work-1 alone: .* work-5'):
            ledger.changed(spec(shape), 2, ['work-1'])
        # They can be named as well.
        found = ledger.changed(spec(shape), 2, ['work-1', 'work-5'])
        self.assertEqual({2, 3, 4, 6}, set(numbers(found)))

    @UNTIMED
    @given(shapes(most=8), shapes(most=8), st.data())
    def test_named_nodes_go_and_no_more_than_the_count_demands(self, first, second, data):
        declared = shaped(second)
        before = Ledger().changed(shaped(first), 1, ()).changed(declared, 2, ())
        total = len(before.nodes)
        self.assertEqual(second.count, total)
        remove = data.draw(st.lists(st.sampled_from(names(before)), unique=True)) if total else []
        count = data.draw(st.integers(0, total + 2))
        declared, after = after_resize(before, declared, count, remove)
        survivors = set(names(before)) - set(remove)
        lost = survivors - set(names(after))
        self.assertFalse(set(remove) & set(names(after)))
        self.assertEqual(max(0, len(survivors) - count), len(lost))
        self.assertEqual(count, len(after.nodes))
        new = set(numbers(after)) - set(numbers(before))
        self.assertTrue(all(number > before.last.get('work', 0) for number in new))
        # The same request again, and the next one without a change.
        self.assertEqual(after, after.changed(declared, after.generation, remove))
        self.assertEqual(after.nodes, after.changed(declared, 9, ()).nodes)

    @UNTIMED
    @given(shapes(most=8), st.data())
    def test_a_removal_that_knows_no_places_loses_no_other_node(self, shape, data):
        before = Ledger().changed(shaped(shape), 1, ())
        remove = (
            data.draw(st.lists(st.sampled_from(names(before)), unique=True)) if shape.count else []
        )
        declared = shaped(resized(shape, shape.count - len(remove)))
        try:
            after = before.changed(declared, 2, remove)
        except ClusterDriverError:
            return
        self.assertEqual(set(names(before)) - set(remove), set(names(after)))


class Change(unittest.TestCase):
    def test_one_flavor_can_shrink_without_a_node_of_another_moving(self):
        found = made(GUIDE.format(2)).changed(spec(GUIDE.format(1)), 2, ())
        self.assertEqual(4, len(found.nodes))
        self.assertLess({3, 4, 5}, set(numbers(found)))

    def test_a_node_that_is_added_goes_to_the_emptiest_zone(self):
        four = made('count: 4, zones: [az1, az2]')
        _, left = after_resize(four, spec('count: 4, zones: [az1, az2]'), 2, ['work-1', 'work-3'])
        found = left.changed(spec('count: 3, zones: [az1, az2]'), 3, ())
        self.assertEqual(LedgerNode('work', 5, Place(None, 'az1')), found.nodes[-1])

    def test_of_an_even_spread_the_youngest_of_the_fullest_zone_goes(self):
        four = made('count: 4, zones: [az1, az2]')
        _, left = after_resize(four, spec('count: 4, zones: [az1, az2]'), 3, ['work-1'])
        self.assertEqual([2, 3], numbers(left.changed(spec('count: 2, zones: [az1, az2]'), 3, ())))

    def test_without_rules_of_deletion_the_youngest_goes(self):
        one = spec('count: 2')
        group = dataclasses.replace(one.groups[0], deletion=(VictimRule.EXPLICIT,))
        found = made('count: 3').changed(dataclasses.replace(one, groups=(group,)), 2, ())
        self.assertEqual([1, 2], numbers(found))

    def test_the_flavor_of_a_group_written_as_counts_replaces_nothing(self):
        counts = spec('flavors: {small: 3}')
        for ledger in (made('count: 3, flavor: small'), old(3)):
            found = ledger.changed(counts, 2, ())
            self.assertEqual([Place('small')] * 3, [node.place for node in found.nodes])
            self.assertEqual([1, 2, 3], numbers(found))

    def test_another_flavor_beside_that_of_the_group_is_built(self):
        text = (
            'cluster: c\nflavor: small\nnodegroups: [{name: work, flavors: {big: 1, small: 3}}]\n'
        )
        for ledger in (made('count: 3, flavor: small'), old(3)):
            found = ledger.changed(spec_of(text), 2, ())
            self.assertEqual(['small'] * 3 + ['big'], [node.place.flavor for node in found.nodes])

    def test_another_flavor_of_the_whole_group_replaces_nothing(self):
        # Heat resizes the servers.
        for before in 'count: 5, flavor: small', 'flavors: {big: 2, small: 3}':
            found = made(before).changed(spec('count: 5, flavor: big'), 2, ())
            self.assertEqual([1, 2, 3, 4, 5], numbers(found))
            self.assertEqual({'big'}, {node.place.flavor for node in found.nodes})

    def test_zones_declared_where_there_were_none_replace_nothing(self):
        for zones in 'count: 4, zones: [az1, az2]', 'zones: {az1: 1, az2: 3}':
            found = old(3).changed(spec(zones), 2, ())
            self.assertEqual([1, 2, 3, 4], numbers(found))
            # Another zone would replace the server.
            self.assertEqual([None] * 3, [node.place.zone for node in found.nodes[:3]])
            self.assertEqual('az2', found.nodes[3].place.zone)

    def test_placements_declared_where_there_were_none_replace_nothing(self):
        shape = Shape(count=4, placements={Place('small', 'az1'): 2, Place('small', 'az2'): 2})
        for ledger in (old(3), old(3, 'small')):
            found = ledger.changed(shaped(shape), 2, ())
            self.assertEqual([1, 2, 3, 4], numbers(found))
            self.assertEqual('az2', found.nodes[3].place.zone)

    def test_zones_that_are_declared_no_more_replace_nothing(self):
        found = made('zones: {az1: 2, az2: 1}').changed(spec('count: 3'), 2, ())
        self.assertEqual(made('zones: {az1: 2, az2: 1}').nodes, found.nodes)

    def test_nodes_of_a_zone_that_is_not_declared_go(self):
        found = made('zones: {az1: 2, az2: 1}').changed(spec('count: 3, zones: [az1]'), 2, ())
        self.assertEqual([1, 3, 4], numbers(found))

    @UNTIMED
    @given(
        st.lists(
            st.builds(Place, st.sampled_from(FLAVORS), st.sampled_from([*ZONES, None])), max_size=6
        ),
        st.data(),
    )
    def test_as_many_nodes_stay_as_counts_of_flavors_and_zones_allow(self, there, data):
        total = data.draw(st.integers(0, 6))
        flavors, zones = data.draw(split(total, FLAVORS)), data.draw(split(total, ZONES))
        nodes = tuple(LedgerNode('work', number, place) for number, place in enumerate(there, 1))
        shape = Shape(
            count=total, flavors=flavors, zones=Zones(rule=ZoneRule.COUNTS, counts=zones)
        )
        found = Ledger(nodes=nodes, last={'work': len(nodes)}).changed(shaped(shape), 2, ())
        most = max(
            size
            for size in range(len(there) + 1)
            for some in itertools.combinations(there, size)
            if Counter(one.flavor for one in some) <= Counter(flavors)
            and Counter(one.zone for one in some if one.zone) <= Counter(zones)
        )
        self.assertEqual(most, len(set(nodes) & set(found.nodes)))
        self.assertEqual(total, len(found.nodes))
