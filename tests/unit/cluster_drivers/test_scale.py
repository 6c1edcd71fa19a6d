"""Who goes first when a group shrinks."""

import unittest
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.cluster_exceptions import ClusterDriverError
from kiln.cluster_models import NodeState
from kiln.cluster_spec import NodeGroupSpec, Place, Shape, VictimRule
from tests.unit.cluster_drivers.samples import cluster, context, node

ZONES = ('az1', 'az2', 'az3')
NODES = st.lists(
    st.tuples(
        st.sampled_from(ZONES),
        st.sampled_from([NodeState.READY, NodeState.FAILED, NodeState.UNHEALTHY]),
        st.booleans(),
        st.integers(0, 4),
    ),
    max_size=12,
).map(
    lambda rows: [
        node(i, place=Place(zone=zone), state=state, doomed='x' * doomed, created_at=float(born))
        for i, (zone, state, doomed, born) in enumerate(rows)
    ]
)


def spec(*rules):
    return NodeGroupSpec(name='work', shape=Shape(count=3), deletion=rules)


class Default(unittest.TestCase):
    def setUp(self):
        self.scale = DefaultScaleManager(context(), cluster())

    def ids(self, rules, nodes):
        return [one.id for one in self.scale.order(spec(*rules), nodes)]

    def test_001_22_the_rules_of_the_group_say_who_goes(self):
        nodes = [
            node(1),
            node(2, state=NodeState.UNHEALTHY),
            node(3, state=NodeState.FAILED),
            node(4, doomed='named'),
            node(5),
        ]
        self.assertEqual(['n-4', 'n-3', 'n-2', 'n-5', 'n-1'], self.ids(VictimRule, nodes))
        self.assertEqual(
            ['n-2', 'n-5', 'n-4', 'n-3', 'n-1'],
            self.ids([VictimRule.UNHEALTHY, VictimRule.YOUNGEST], nodes),
        )

    def test_without_rules_the_youngest_go_first(self):
        self.assertEqual(['n-3', 'n-2', 'n-1'], self.ids([], [node(3), node(1), node(2)]))

    def test_an_unknown_node_is_not_taken_for_a_failed_one(self):
        nodes = [node(1, state=NodeState.UNKNOWN), node(2)]
        self.assertEqual(['n-2', 'n-1'], self.ids(VictimRule, nodes))

    def test_the_fullest_zone_gives_first(self):
        zones = [(1, 'az1'), (2, 'az1'), (3, 'az1'), (4, 'az2'), (5, 'az2'), (6, None)]
        nodes = [node(number, place=Place(zone=zone)) for number, zone in zones]
        self.assertEqual(
            ['n-3', 'n-5', 'n-2', 'n-6', 'n-4', 'n-1'],
            self.ids([VictimRule.ZONE_BALANCE, VictimRule.YOUNGEST], nodes),
        )

    def test_a_choice_is_of_so_many_nodes(self):
        nodes = [node(1), node(2), node(3)]
        for number in range(4):
            found = self.scale.victims(spec(*VictimRule), nodes, number)
            self.assertEqual(number, len(found))
        with self.assertRaisesRegex(ClusterDriverError, 'Cannot remove 4 nodes.*lets 3 go'):
            self.scale.victims(spec(*VictimRule), nodes, 4)

    @settings(deadline=None)
    @given(NODES, st.permutations(list(VictimRule)))
    def test_the_order_has_each_node_once_and_no_order_of_theirs_changes_it(self, nodes, rules):
        found = self.ids(rules, nodes)
        self.assertEqual(sorted(one.id for one in nodes), sorted(found))
        self.assertEqual(found, self.ids(rules, nodes[::-1]))

    @settings(deadline=None)
    @given(NODES)
    def test_each_victim_comes_from_the_fullest_zone_of_those_alike(self, nodes):
        rules = (VictimRule.FAILED, VictimRule.ZONE_BALANCE, VictimRule.YOUNGEST)
        order = self.scale.order(spec(*rules), nodes)
        for number, one in enumerate(order):
            left = order[number:]
            alike = [other for other in left if (other.state is NodeState.FAILED)
                     == (one.state is NodeState.FAILED)]  # fmt: skip
            fullness = Counter(other.place.zone for other in left)
            fullest = max(fullness[other.place.zone] for other in alike)
            self.assertEqual(fullest, fullness[one.place.zone])


class OfADriver(unittest.TestCase):
    def choose(self, answer, number=1):
        class Chooser(DefaultScaleManager):
            def order(self, nodegroup, nodes):
                return answer

        return Chooser(context(), cluster()).victims(spec(), [node(1), node(2)], number)

    def test_a_node_that_may_not_go_is_left_out(self):
        self.assertEqual((node(2),), self.choose([node(2)]))
        with self.assertRaisesRegex(ClusterDriverError, 'lets 1 go'):
            self.choose([node(2)], number=2)

    def test_a_node_that_was_not_asked_about_is_not_removed(self):
        for answer in ([node(3)], [node(1), node(1)], [node(1), node(2), node(3)]):
            with self.assertRaisesRegex(ClusterDriverError, 'not to choose from'):
                self.choose(answer)
