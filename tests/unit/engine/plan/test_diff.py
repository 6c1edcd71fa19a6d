"""The plan of a group has only the necessary changes."""

import dataclasses
import random
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.clusters.exceptions import ClusterNotFound, InvalidCluster
from kiln.clusters.models import NodeState
from kiln.clusters.placing.counts import resized, table
from kiln.clusters.spec import Place, Portion, Strategy, VictimRule
from kiln.engine.plan.diff import plan_group
from tests.unit.engine.groups import (
    FLAVORS,
    SPREAD,
    UNTIMED,
    ZONES,
    along,
    changes,
    counted,
    done,
    even,
    groups,
    made,
    new_group,
    node,
    nodes_in,
    places,
    reshaped,
    shapes,
    split,
    wanted,
)


def removed(plan):
    return [act.node for act in plan.removes]


def reasons(acts):
    return [act.reason for act in acts]


class Growth(unittest.TestCase):
    def test_003_9_a_new_group_is_built_by_its_table(self):
        one = wanted(flavors={'x': 10, 'y': 5}, zones=counted(az1=8, az2=7))
        plan = plan_group(one, ())
        self.assertEqual((15, 0, 0), changes(plan))
        self.assertEqual(
            {('x', 'az1'): 5, ('x', 'az2'): 5, ('y', 'az1'): 3, ('y', 'az2'): 2},
            places(made(plan)),
        )
        self.assertEqual(['fills the largest deficit'] * 15, reasons(plan.adds))

    def test_003_1_growth_fills_the_zone_with_the_largest_deficit(self):
        nodes = nodes_in({('small', 'az1'): 3, ('small', 'az2'): 1})
        plan = plan_group(wanted(7, zones=SPREAD), nodes)
        self.assertEqual({('small', 'az2'): 1, ('small', 'az3'): 2}, places(made(plan)))

    def test_003_1_zones_are_levelled_whatever_the_flavors_are(self):
        nodes = nodes_in({('x', 'az1'): 2})
        plan = plan_group(wanted(flavors={'x': 2, 'y': 2}, zones=even('az1', 'az2')), nodes)
        self.assertEqual({('y', 'az2'): 2}, places(made(plan)))

    def test_003_2_growth_adds_the_flavor_that_is_counted(self):
        nodes = nodes_in({('x', None): 2, ('y', None): 1})
        plan = plan_group(wanted(flavors={'x': 2, 'y': 3}), nodes)
        self.assertEqual({('y', None): 2}, places(made(plan)))

    @UNTIMED
    @given(groups())
    def test_003_9_a_new_group_is_exactly_its_table(self, one):
        plan = plan_group(one, ())
        expected = table(one.group.shape, ZONES, flavor='small')
        self.assertEqual(dict(expected), dict(plan.table))
        self.assertEqual(
            {(place.flavor, place.zone): n for place, n in expected.items()}, places(made(plan))
        )


class Shrinking(unittest.TestCase):
    def test_the_youngest_node_of_the_fullest_zone_is_removed_first(self):
        nodes = nodes_in({('small', 'az1'): 1, ('small', 'az2'): 3, ('small', 'az3'): 1})
        plan = plan_group(wanted(4, zones=SPREAD), nodes)
        self.assertEqual([nodes[3]], removed(plan))
        self.assertEqual(['one too many'], reasons(plan.removes))

    def test_failed_nodes_are_removed_before_unhealthy_ones_and_these_first(self):
        states = (NodeState.READY, NodeState.UNHEALTHY, NodeState.FAILED, NodeState.READY)
        nodes = [node(state=state) for state in states]
        plan = plan_group(wanted(1), nodes)
        self.assertEqual([nodes[2], nodes[1], nodes[3]], removed(plan))
        self.assertEqual('one too many, and failed', plan.removes[0].reason)

    def test_the_group_sets_the_order_of_the_rules(self):
        nodes = [node(state=NodeState.FAILED), node()]
        one = wanted(1, deletion=(VictimRule.YOUNGEST, VictimRule.FAILED))
        self.assertEqual([nodes[1]], removed(plan_group(one, nodes)))

    def test_equal_nodes_are_removed_in_the_order_of_their_ids(self):
        nodes = [node(id=name, created_at=1.0) for name in 'bac']
        self.assertEqual(['a', 'b'], [one.id for one in removed(plan_group(wanted(1), nodes))])

    def test_nodes_of_unknown_state_are_removed_last(self):
        nodes = [node(), node(), node(state=NodeState.UNKNOWN)]
        self.assertEqual([nodes[1]], removed(plan_group(wanted(2), nodes)))

    def test_a_removed_node_makes_its_zone_less_crowded_for_every_flavor(self):
        nodes = nodes_in({('y', 'az2'): 2, ('x', 'az1'): 1, ('y', 'az1'): 1})
        nodes.append(node('x', 'az1'))
        plan = plan_group(wanted(flavors={'x': 1, 'y': 2}, zones=even('az1', 'az2')), nodes)
        self.assertEqual([nodes[4], nodes[1]], removed(plan))

    def test_a_zone_no_longer_listed_is_left_first_only_when_shrinking(self):
        nodes = nodes_in({('small', 'az1'): 2, ('small', 'old'): 1})
        self.assertTrue(plan_group(wanted(3, zones=SPREAD), nodes).empty)
        self.assertEqual([nodes[2]], removed(plan_group(wanted(2, zones=SPREAD), nodes)))

    def test_a_group_that_is_to_be_empty_keeps_no_node(self):
        nodes = [node(), node(state=NodeState.UNKNOWN)]
        plan = plan_group(wanted(0), nodes)
        self.assertEqual(nodes, removed(plan))
        self.assertEqual(
            [(True, 'the group is to be empty')] * 2, [(a.named, a.reason) for a in plan.removes]
        )

    @UNTIMED
    @given(st.integers(0, 30), st.data())
    def test_003_1_shrinking_keeps_an_even_spread_even(self, count, data):
        one = new_group(wanted(count, zones=SPREAD))
        plan = plan_group(wanted(data.draw(st.integers(0, count)), zones=SPREAD), one)
        left = along(done(plan), 'zone')
        counts = [left.get(zone, 0) for zone in ZONES]
        self.assertLessEqual(max(counts) - min(counts), 1)


class Binding(unittest.TestCase):
    """Explicit counts are met, if necessary by replacing nodes."""

    def test_003_2_a_flavor_not_declared_is_replaced_in_its_zone(self):
        nodes = nodes_in({('x', 'az1'): 1, ('x', 'az2'): 1})
        plan = plan_group(wanted(flavors={'y': 2}, zones=even('az1', 'az2')), nodes)
        self.assertEqual((0, 2, 0), changes(plan))
        self.assertEqual(
            [('az1', Place('y', 'az1')), ('az2', Place('y', 'az2'))],
            sorted((act.node.place.zone, act.place) for act in plan.replaces),
        )
        self.assertEqual('flavor x is not declared', plan.replaces[0].reason)

    def test_003_2_only_as_many_are_replaced_as_the_counts_differ(self):
        nodes = nodes_in({('x', None): 5})
        plan = plan_group(wanted(flavors={'x': 3, 'y': 2}), nodes)
        self.assertEqual((0, 2, 0), changes(plan))
        self.assertEqual({'one too many'}, set(reasons(plan.replaces)))

    def test_003_1_counted_zones_bind(self):
        nodes = nodes_in({('small', 'az1'): 3})
        plan = plan_group(wanted(zones=counted(az1=2, az2=1)), nodes)
        self.assertEqual((0, 1, 0), changes(plan))
        self.assertEqual(Place('small', 'az2'), plan.replaces[0].place)

    def test_003_1_a_zone_that_is_no_longer_named_is_left(self):
        nodes = nodes_in({('small', 'az3'): 1, (None, None): 1, ('small', 'az1'): 1})
        plan = plan_group(wanted(3, zones=even('az1', 'az2')), nodes)
        self.assertEqual(
            {'zone az3 is not declared', 'the default flavor is not declared'},
            set(reasons(plan.replaces)),
        )

    def test_003_1_a_zone_that_is_no_longer_counted_is_left(self):
        plan = plan_group(wanted(zones=counted(az1=1)), [node(zone='az2')])
        self.assertEqual(['zone az2 is not declared'], reasons(plan.replaces))

    def test_a_node_without_a_zone_is_replaced_if_zones_are_named(self):
        plan = plan_group(wanted(1, zones=even('az1')), [node()])
        self.assertEqual(['the group now names zones'], reasons(plan.replaces))

    def test_placements_bind_both_at_once(self):
        nodes = nodes_in({('x', 'az1'): 1, ('y', 'az2'): 1})
        placements = {Place('x', 'az2'): 1, Place('y', 'az1'): 1}
        plan = plan_group(wanted(placements=placements), nodes)
        self.assertEqual((0, 2, 0), changes(plan))
        self.assertEqual(placements, dict(plan.table))

    def test_two_counts_do_not_place_flavors_in_zones(self):
        nodes = nodes_in({('x', 'az1'): 5, ('y', 'az2'): 5})
        one = wanted(flavors={'x': 5, 'y': 5}, zones=counted(az1=5, az2=5))
        self.assertTrue(plan_group(one, nodes).empty)

    def test_a_node_of_unknown_state_is_replaced_only_if_no_other_can_be(self):
        away, ready = (
            node(zone='az3', state=state, id=name)
            for name, state in (('away', NodeState.UNKNOWN), ('ready', NodeState.READY))
        )
        for count, moved, left in ((1, ['ready'], ['away']), (2, ['away', 'ready'], [])):
            with self.subTest(count=count):
                plan = plan_group(wanted(count, zones=counted(az2=count)), [away, ready])
                self.assertEqual(moved, sorted(one.node.id for one in plan.replaces))
                self.assertEqual(left, [one.id for one in removed(plan)])

    def test_no_node_moves_to_even_a_spread(self):
        nodes = nodes_in({('small', 'az1'): 3, ('small', 'az2'): 2})
        one = wanted(5, zones=even('az2', 'az1', 'az3'))
        self.assertTrue(plan_group(one, nodes).empty)


class States(unittest.TestCase):
    def test_gone_leaving_and_removed_nodes_do_not_count(self):
        nodes = [
            node(state=NodeState.GONE), node(state=NodeState.DELETING),
            node(state=NodeState.DRAINING), node(doomed='named'), node(),
        ]  # fmt: skip
        plan = plan_group(wanted(2), nodes)
        self.assertEqual((1, 0, 0), changes(plan))
        self.assertEqual(tuple(nodes[1:4]), plan.leaving)
        self.assertEqual((nodes[4],), plan.live)

    def test_an_unknown_node_is_not_gone(self):
        plan = plan_group(wanted(1), [node(state=NodeState.UNKNOWN)])
        self.assertTrue(plan.empty)
        self.assertEqual(['the backend cannot report its state'], reasons(plan.keeps))

    def test_a_failed_node_counts_until_it_is_given_up(self):
        plan = plan_group(wanted(2), [node(state=NodeState.FAILED), node()])
        self.assertTrue(plan.empty)
        self.assertEqual(['failed', ''], reasons(plan.keeps))

    def test_a_node_that_is_given_up_is_removed_at_once_and_replaced(self):
        dead, well = node(zone='az2', state=NodeState.FAILED), node(zone='az1')
        plan = plan_group(wanted(2, zones=SPREAD), [dead, well], victims={dead.id: 'failed'})
        self.assertEqual(
            [(dead, 'failed', True)], [(a.node, a.reason, a.named) for a in plan.removes]
        )
        self.assertEqual({('small', 'az2'): 1}, places(made(plan)))

    def test_003_3_one_node_is_replaced_by_its_id(self):
        nodes = nodes_in({('small', 'az1'): 3, ('small', 'az2'): 3})
        plan = plan_group(wanted(6, zones=SPREAD), nodes, replace={nodes[1].id: 'as you asked'})
        self.assertEqual((0, 1, 0), changes(plan))
        act = plan.replaces[0]
        self.assertEqual(
            (nodes[1], nodes[1].place, 'as you asked'), (act.node, act.place, act.reason)
        )

    def test_003_3_an_unknown_node_id_is_refused_and_named(self):
        for asked in ({'victims': {'nope': ''}}, {'replace': {'nope': ''}}):
            with self.assertRaisesRegex(ClusterNotFound, 'Group work has no node nope'):
                plan_group(wanted(1), [node()], **asked)


class Outdated(unittest.TestCase):
    def test_an_upgrade_replaces_nodes_of_an_older_spec_in_their_places(self):
        old = nodes_in({('x', 'az1'): 2}, made_with='old')
        one = wanted(flavors={'x': 3}, made_with='new')
        plan = plan_group(one, [*old, node('x', 'az1', made_with='new')], upgrade=True)
        self.assertEqual((0, 2, 0), changes(plan))
        self.assertEqual(
            [(Place('x', 'az1'), 'built from an older spec')] * 2,
            [(act.place, act.reason) for act in plan.replaces],
        )

    def test_without_an_upgrade_outdated_nodes_stay_and_are_shown(self):
        plan = plan_group(wanted(1, made_with='new'), [node(made_with='old')])
        self.assertTrue(plan.empty)
        self.assertEqual(['built from an older spec'], reasons(plan.keeps))

    def test_an_adopted_node_is_never_outdated(self):
        self.assertTrue(plan_group(wanted(1, made_with='new'), [node()], upgrade=True).empty)

    def test_an_outdated_node_gives_way_to_its_successor(self):
        for zones in (SPREAD, counted(az1=1)):
            old, new = node(zone='az1', made_with='old'), node(zone='az1', made_with='new')
            plan = plan_group(wanted(1, zones=zones, made_with='new'), [old, new], upgrade=True)
            self.assertEqual([old], removed(plan))
            self.assertEqual('one too many, and built from an older spec', plan.removes[0].reason)

    def test_a_new_node_stays_though_two_outdated_ones_would_fit_instead(self):
        old = nodes_in({('x', 'az2'): 1, ('y', 'az1'): 1}, made_with='old')
        new = node('x', 'az1', made_with='new')
        one = wanted(flavors={'x': 1, 'y': 1}, zones=counted(az1=1, az2=1), made_with='new')
        plan = plan_group(one, [*old, new], upgrade=True)
        self.assertEqual([new], [keep.node for keep in plan.keeps])
        self.assertEqual([Place('y', 'az2')], [act.place for act in plan.replaces])

    def test_a_group_without_surge_and_unavailable_cannot_be_upgraded(self):
        strategy = Strategy(max_surge=Portion(20, percent=True), max_unavailable=Portion(0))
        one = wanted(4, made_with='new', strategy=strategy)
        nodes = nodes_in({('small', None): 4}, made_with='old')
        self.assertEqual((), plan_group(one, nodes).problems)
        (problem,) = plan_group(one, nodes, upgrade=True).problems
        self.assertIn('max_surge of 20% and a max_unavailable of 0 are zero', problem.message)
        self.assertEqual('nodegroups[work].strategy', problem.path)


class Plans(unittest.TestCase):
    def test_a_count_out_of_bounds_is_a_problem_of_the_plan(self):
        (problem,) = plan_group(wanted(3, max_count=2), ()).problems
        self.assertIn('more than its max_count of 2', problem.message)

    def test_counts_that_do_not_add_up_are_refused(self):
        with self.assertRaises(InvalidCluster):
            plan_group(wanted(3, flavors={'x': 1}), ())

    @UNTIMED
    @given(groups(), groups(), st.booleans())
    def test_a_plan_that_is_done_leaves_nothing_to_do(self, before, after, upgrade):
        before = dataclasses.replace(before, made_with='old')
        after = dataclasses.replace(after, made_with='new')
        plan = plan_group(after, new_group(before), upgrade=upgrade)
        now = done(plan, made_with='new')
        self.assertEqual(after.group.shape.count, len(now))
        self.assertEqual(
            places(now), {(p.flavor, p.zone): count for p, count in plan.table.items()}
        )
        self.assertTrue(plan_group(after, now, upgrade=upgrade).empty)

    @UNTIMED
    @given(groups(), shapes(), st.sets(st.integers(0, 29)), st.integers())
    def test_the_order_of_nodes_changes_nothing_and_each_is_planned_once(
        self, one, shape, picked, seed
    ):
        chance = random.Random(seed)
        nodes = [
            dataclasses.replace(member, state=chance.choice(list(NodeState)))
            for member in new_group(one)
        ]
        victims = {nodes[index].id: 'named' for index in picked if index < len(nodes)}
        after = reshaped(one, shape)
        plan = plan_group(after, nodes, victims=victims)
        fates = [member.id for member in (*plan.live, *plan.leaving)]
        present = [member.id for member in nodes if member.state is not NodeState.GONE]
        self.assertEqual(sorted(present), sorted(fates))
        chance.shuffle(nodes)
        again = plan_group(after, nodes, victims=victims)
        for part in ('table', 'adds', 'problems'):
            self.assertEqual(getattr(plan, part), getattr(again, part))
        for part in ('removes', 'replaces', 'keeps'):
            self.assertEqual(
                {(act.node.id, act.reason) for act in getattr(plan, part)},
                {(act.node.id, act.reason) for act in getattr(again, part)},
            )

    @UNTIMED
    @given(groups(), st.integers(0, 20))
    def test_growth_only_adds(self, one, more):
        nodes = new_group(one)
        bigger = resized(one.group.shape, one.group.shape.count + more)
        plan = plan_group(reshaped(one, bigger), nodes)
        self.assertEqual((more, 0, 0), changes(plan))

    @UNTIMED
    @given(split(20, FLAVORS), st.integers(0, 30).flatmap(lambda count: split(count, FLAVORS)))
    def test_003_2_no_more_is_replaced_than_the_flavors_differ(self, before, after):
        nodes = new_group(wanted(flavors=before, zones=SPREAD))
        plan = plan_group(wanted(flavors=after, zones=SPREAD), nodes)
        self.assertEqual(sum(min(before[name], after[name]) for name in FLAVORS), len(plan.keeps))
