"""A resize returns a new count and the nodes to remove together; no other node moves."""

import dataclasses
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import NodeState
from kiln.clusters.placing.counts import table
from kiln.clusters.spec import Place
from kiln.engine.plan.changes import Remove
from kiln.engine.plan.diff import plan_group, resize
from tests.unit.engine.groups import (
    SPREAD,
    UNTIMED,
    ZONES,
    changes,
    counted,
    done,
    groups,
    new_group,
    node,
    nodes_in,
    reshaped,
    wanted,
)


def after(one, nodes, count, named=()):
    """Return the plan of a group that has been resized."""
    found = resize(one, nodes, count, dict.fromkeys(named, 'named'))
    return plan_group(reshaped(one, found.shape), nodes, victims=found.victims)


class Resizing(unittest.TestCase):
    def test_003_4_a_node_is_removed_from_the_middle_and_no_other_changes(self):
        nodes = nodes_in({('small', None): 5})
        plan = after(wanted(5), nodes, 4, [nodes[2].id])
        self.assertEqual((0, 0, 1), changes(plan))
        self.assertEqual((Remove(node=nodes[2], reason='named', named=True),), plan.removes)
        self.assertEqual([*nodes[:2], *nodes[3:]], [keep.node for keep in plan.keeps])

    def test_003_10_three_named_of_a_thousand_are_exactly_three(self):
        one = wanted(flavors={'x': 600, 'y': 400}, zones=counted(az1=334, az2=333, az3=333))
        nodes = new_group(one)
        named = [nodes[index].id for index in (17, 500, 986)]
        plan = after(one, nodes, 997, named)
        self.assertEqual((0, 0, 3), changes(plan))
        self.assertEqual(set(named), {act.node.id for act in plan.removes})

    def test_003_4_the_zones_shrink_where_the_rules_remove_a_node(self):
        # By proportion it would be zone az1, which has no node of the flavor.
        nodes = nodes_in({('x', 'az2'): 5, ('y', 'az1'): 5})
        one = wanted(flavors={'x': 5, 'y': 5}, zones=counted(az1=5, az2=5))
        plan = after(one, nodes, 9)
        self.assertEqual((0, 0, 1), changes(plan))

    def test_a_failed_node_is_removed_first_and_its_zone_count_drops(self):
        nodes = nodes_in({('small', 'az1'): 2, ('small', 'az2'): 2})
        nodes[0] = dataclasses.replace(nodes[0], state=NodeState.FAILED)
        found = resize(wanted(zones=counted(az1=2, az2=2)), nodes, 3)
        self.assertEqual({nodes[0].id: 'the group shrinks'}, dict(found.victims))
        self.assertEqual({'az1': 1, 'az2': 2}, dict(found.shape.zones.counts))

    def test_no_more_nodes_are_removed_than_the_group_shrinks_by(self):
        nodes = nodes_in({('x', None): 2, ('z', None): 2})
        found = resize(wanted(flavors={'x': 2, 'y': 2}), nodes, 3)
        self.assertEqual([nodes[3].id], list(found.victims))

    def test_named_nodes_beyond_the_difference_are_replaced(self):
        nodes = nodes_in({('small', 'az1'): 3})
        plan = after(wanted(3), nodes, 2, [nodes[0].id, nodes[1].id])
        self.assertEqual((1, 0, 2), changes(plan))

    def test_a_node_that_is_being_removed_is_not_removed_again(self):
        nodes = [node(), node(), node(state=NodeState.DELETING)]
        found = resize(wanted(2), nodes, 1, {nodes[2].id: 'named'})
        self.assertEqual([nodes[1].id], list(found.victims))

    def test_a_node_of_unknown_state_is_removed_only_if_named(self):
        nodes = [node(state=NodeState.UNKNOWN), node(state=NodeState.UNKNOWN)]
        self.assertEqual({}, dict(resize(wanted(2), nodes, 1).victims))
        named = {nodes[0].id: 'named'}
        self.assertEqual(named, dict(resize(wanted(2), nodes, 1, named).victims))

    def test_placements_shrink_in_proportion(self):
        one = wanted(placements={Place('x', 'az1'): 4, Place('y', 'az2'): 2})
        found = resize(one, new_group(one), 3)
        self.assertEqual([2, 1], list(found.shape.placements.values()))
        self.assertEqual(3, len(found.victims))

    def test_an_unknown_node_id_is_refused(self):
        with self.assertRaisesRegex(ClusterNotFound, 'nope'):
            resize(wanted(1), [], 0, {'nope': 'named'})

    @UNTIMED
    @given(groups(), st.integers(0, 40), st.sets(st.integers(0, 29)))
    def test_003_4_only_the_difference_and_the_named_are_touched(self, one, count, picked):
        nodes = new_group(one)
        named = [nodes[index].id for index in sorted(picked) if index < len(nodes)]
        plan = after(one, nodes, count, named)
        adds, replaces, removes = changes(plan)
        going = max(len(nodes) - count, len(named))
        self.assertEqual((0, going), (replaces, removes))
        self.assertEqual(count - (len(nodes) - going), adds)
        self.assertLessEqual(set(named), {act.node.id for act in plan.removes})

    @UNTIMED
    @given(groups(), st.lists(st.integers(0, 40), max_size=5))
    def test_scaling_up_and_down_changes_only_the_necessary_nodes(self, one, counts):
        nodes = new_group(one)
        for count in counts:
            found = resize(one, nodes, count)
            one = reshaped(one, found.shape)
            plan = plan_group(one, nodes, victims=found.victims)
            more = count - len(nodes)
            self.assertEqual((max(0, more), 0, max(0, -more)), changes(plan))
            nodes = done(plan)
            table(one.group.shape, ZONES)  # still adds up

    def test_an_even_group_stays_even_through_resizes(self):
        one, nodes = wanted(9, zones=SPREAD), new_group(wanted(9, zones=SPREAD))
        for count in (4, 11, 2, 7):
            plan = after(one, nodes, count)
            nodes = done(plan)
            counts = [sum(1 for each in nodes if each.place.zone == zone) for zone in ZONES]
            self.assertLessEqual(max(counts) - min(counts), 1)
