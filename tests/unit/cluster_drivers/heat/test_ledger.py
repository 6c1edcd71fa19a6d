"""Ledger of nodes: numbers are never given twice, and any node can go; 003-6."""

import json
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.cluster_drivers.heat.ledger import Ledger
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.spec import Place
from tests.unit.cluster_drivers.heat.made import spec_of

ONE = 'cluster: c\nnodegroups:\n  - {{name: work, {}}}\n'


def spec(shape):
    return spec_of(ONE.format(shape))


def names(ledger):
    return [node.name for node in ledger.nodes]


def places(ledger):
    return [node.place for node in ledger.nodes]


class Numbers(unittest.TestCase):
    def test_nodes_are_numbered_from_one(self):
        self.assertEqual(['work-1', 'work-2'], names(Ledger().changed(spec('count: 2'), 1, ())))

    def test_the_youngest_go_first(self):
        three = Ledger().changed(spec('count: 3'), 1, ())
        self.assertEqual(['work-1'], names(three.changed(spec('count: 1'), 2, ())))

    def test_a_named_node_goes_from_the_middle_and_its_number_does_not_come_back(self):
        found = Ledger().changed(spec('count: 3'), 1, ()).changed(spec('count: 2'), 2, ['work-2'])
        self.assertEqual(['work-1', 'work-3'], names(found))
        self.assertEqual(
            ['work-1', 'work-3', 'work-4'], names(found.changed(spec('count: 3'), 3, ()))
        )

    def test_the_last_number_is_kept_when_the_youngest_has_gone(self):
        found = Ledger().changed(spec('count: 3'), 1, ()).changed(spec('count: 2'), 2, ())
        self.assertEqual(
            ['work-1', 'work-2', 'work-4'], names(found.changed(spec('count: 3'), 3, ()))
        )

    def test_a_name_that_does_not_exist_is_refused(self):
        three = Ledger().changed(spec('count: 3'), 1, ())
        for name in ('work-4', 'other-1', 'work-02', ''):
            with self.subTest(name), self.assertRaises(ClusterDriverError):
                three.changed(spec('count: 2'), 2, [name])

    def test_a_removal_can_be_repeated_for_its_generation_alone(self):
        three = Ledger().changed(spec('count: 3'), 1, ())
        found = three.changed(spec('count: 2'), 2, ['work-2'])
        self.assertEqual(found, found.changed(spec('count: 2'), 2, ['work-2']))
        with self.assertRaises(ClusterDriverError):
            found.changed(spec('count: 1'), 3, ['work-2'])

    def test_a_group_that_comes_back_has_new_numbers(self):
        found = Ledger().changed(spec('count: 2'), 1, ()).changed(spec_of(), 2, ())
        self.assertEqual(['work-1', 'work-2', 'work-3'], names(found)[1:])
        gone = found.changed(spec_of('cluster: c\nnodegroups: [{name: a, count: 1}]\n'), 3, ())
        again = gone.changed(spec('count: 1'), 4, ())
        self.assertEqual(['work-4'], names(again))

    def test_a_ledger_is_the_same_as_plain_data(self):
        found = Ledger().changed(spec('flavors: {a: 1, b: 2}'), 1, ())
        self.assertEqual(found, Ledger.read(json.loads(json.dumps(found.write()))))

    @given(st.lists(st.integers(0, 12), min_size=1, max_size=6))
    def test_whatever_the_counts_were_no_number_means_two_nodes(self, counts):
        ledger, ever = Ledger(), set()
        for generation, count in enumerate(counts, 1):
            before = set(names(ledger))
            ledger = ledger.changed(spec(f'count: {count}'), generation, ())
            new = set(names(ledger)) - before
            self.assertFalse(new & ever)
            self.assertEqual(count, len(ledger.nodes))
            ever |= new
            self.assertEqual(ledger, ledger.changed(spec(f'count: {count}'), generation, ()))


class Places(unittest.TestCase):
    def test_flavors_and_zones_are_counted_out(self):
        found = Ledger().changed(spec('flavors: {x: 2, y: 1}, zones: {a: 2, b: 1}'), 1, ())
        self.assertEqual([Place('x', 'a'), Place('x', 'b'), Place('y', 'a')], places(found))

    def test_named_zones_take_turns(self):
        found = Ledger().changed(spec('count: 3, zones: [a, b]'), 1, ())
        self.assertEqual(['a', 'b', 'a'], [place.zone for place in places(found)])

    def test_the_flavor_of_the_group_is_kept_with_its_nodes(self):
        found = Ledger().changed(spec('count: 1, flavor: x'), 1, ())
        self.assertEqual([Place('x', None)], places(found))

    def test_nodes_of_other_flavors_stay_when_a_flavor_gets_more(self):
        ledger = Ledger().changed(spec('flavors: {x: 1, y: 1}'), 1, ())
        more = ledger.changed(spec('flavors: {x: 2, y: 1}'), 2, ())
        self.assertEqual({*names(ledger), 'work-3'}, set(names(more)))

    def test_a_node_of_a_flavor_that_is_not_wanted_goes(self):
        ledger = Ledger().changed(spec('flavors: {x: 1, y: 1}'), 1, ())
        found = ledger.changed(spec('flavors: {x: 2}'), 2, ())
        self.assertEqual(['work-1', 'work-3'], names(found))
