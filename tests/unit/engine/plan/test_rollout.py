"""A group works while it changes: never fewer nodes, nor more, than allowed."""

import dataclasses
import random
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.clusters.models import NodeState
from kiln.clusters.spec import Portion, Strategy
from kiln.engine.plan.diff import plan_group
from kiln.engine.plan.rollout import MAKING, next_round, spare
from tests.unit.engine.groups import (
    UNTIMED,
    counted,
    groups,
    new_group,
    node,
    nodes_in,
    reshaped,
    shapes,
    wanted,
)

READY, UNKNOWN = NodeState.READY, NodeState.UNKNOWN


def strategy(surge, unavailable, batch=None):
    return Strategy(max_surge=Portion(surge), max_unavailable=Portion(unavailable), batch=batch)


def upgrade(count, nodes, *how):
    one = wanted(count, made_with='new', strategy=strategy(*how))
    return plan_group(one, nodes, upgrade=True)


def old(count, **more):
    return [node(made_with='old', **more) for _ in range(count)]


def begun(turn):
    return len(turn.adds), len(turn.removes)


class Turns(unittest.TestCase):
    def test_with_a_surge_the_new_node_is_built_first(self):
        nodes = old(3)
        turn = next_round(upgrade(3, nodes, 1, 0))
        self.assertEqual((1, 0), begun(turn))
        self.assertIn('built from an older spec', turn.adds[0].reason)
        self.assertIn('no ready node can be spared with max_unavailable 0', turn.holds)
        self.assertIn('4 nodes exist, and 4 are allowed', turn.holds)

    def test_the_old_node_is_removed_when_the_new_one_is_ready(self):
        new = node(made_with='new', state=NodeState.JOINING)
        nodes = old(3)
        self.assertEqual((0, 0), begun(next_round(upgrade(3, [*nodes, new], 1, 0))))
        new = dataclasses.replace(new, state=READY)
        turn = next_round(upgrade(3, [*nodes, new], 1, 0))
        self.assertEqual((0, 1), begun(turn))
        self.assertIn(turn.removes[0].node, nodes)

    def test_without_a_surge_the_new_node_waits_until_the_old_one_is_being_deleted(self):
        nodes = old(3)
        turn = next_round(upgrade(3, nodes, 0, 1))
        self.assertEqual((0, 1), begun(turn))
        left = [one for one in nodes if one != turn.removes[0].node]
        for state, adds in ((NodeState.DRAINING, 0), (NodeState.DELETING, 1)):
            gone = dataclasses.replace(turn.removes[0].node, doomed='old', state=state)
            self.assertEqual((adds, 0), begun(next_round(upgrade(3, [*left, gone], 0, 1))))

    def test_nodes_that_do_not_work_are_removed_first_and_at_once(self):
        broken = old(1, state=NodeState.UNHEALTHY)
        nodes = [*old(2), *broken]
        turn = next_round(upgrade(3, nodes, 1, 0))
        self.assertEqual(broken, [act.node for act in turn.removes])
        self.assertEqual(1, len(turn.adds))

    def test_a_node_being_built_needs_no_spare(self):
        nodes = [*old(3), node(made_with='new', state=NodeState.BUILDING)]
        self.assertEqual(0, spare(upgrade(3, nodes, 1, 0)))
        self.assertEqual(1, spare(upgrade(3, nodes, 1, 1)))
        self.assertEqual(1, spare(upgrade(2, nodes, 1, 0)))
        self.assertEqual(0, spare(upgrade(9, nodes, 1, 0)))

    def test_a_batch_limits_replacements_under_way(self):
        turn = next_round(upgrade(9, old(9), 5, 5, 2))
        self.assertEqual((2, 2), begun(turn))
        self.assertIn('4 nodes are under way, and batch is 2', turn.holds)
        self.assertEqual((2, 0), begun(next_round(upgrade(9, old(9), 5, 0, 2))))

    def test_a_batch_limits_removals_too(self):
        one = wanted(2, strategy=strategy(1, 0, 3))
        self.assertEqual((0, 3), begun(next_round(plan_group(one, new_group(wanted(9))))))

    def test_a_node_removed_during_its_build_counts_once(self):
        nodes = [*old(2), *old(1, state=NodeState.BUILDING)]
        self.assertEqual((2, 1), begun(next_round(upgrade(3, nodes, 2, 0, 3))))

    def test_a_named_node_no_longer_counts(self):
        nodes = old(4)
        one = wanted(3, made_with='new', strategy=strategy(1, 0))
        plan = plan_group(one, nodes, victims={nodes[0].id: 'named'}, upgrade=True)
        self.assertEqual([nodes[0]], [act.node for act in next_round(plan).removes])

    def test_neither_first_builds_nor_named_nodes_wait_for_a_batch(self):
        self.assertEqual((9, 0), begun(next_round(upgrade(9, (), 1, 0, 1))))
        nodes = new_group(wanted(9))
        one = wanted(4, strategy=strategy(1, 0, 1))
        victims = dict.fromkeys([each.id for each in nodes[:5]], 'named')
        turn = next_round(plan_group(one, nodes, victims=victims))
        self.assertEqual((0, 5), begun(turn))

    def test_percentages_are_of_the_group(self):
        one = wanted(
            10,
            made_with='new',
            strategy=Strategy(max_surge=Portion(30, percent=True), max_unavailable=Portion(0)),
        )
        self.assertEqual((3, 0), begun(next_round(plan_group(one, old(10), upgrade=True))))

    def test_nothing_is_built_or_deleted_for_an_unknown_node(self):
        one = wanted(2, made_with='new')
        for lost in (node('old flavor', state=UNKNOWN), node(state=UNKNOWN, made_with='old')):
            plan = plan_group(one, [lost, node()], upgrade=True)
            self.assertEqual([lost], [act.node for act in plan.replaces])
            turn = next_round(plan)
            self.assertEqual((0, 0), begun(turn))
            self.assertIn(f'the backend cannot report the state of {lost.name}', turn.holds)

    def test_an_unknown_node_does_not_count_as_ready(self):
        nodes = [*old(2), *old(1, state=UNKNOWN), node(made_with='new')]
        self.assertEqual((0, 0), begun(next_round(upgrade(3, nodes, 1, 0))))

    def test_without_surge_and_unavailable_nothing_begins_and_the_hold_says_why(self):
        plan = upgrade(3, old(3), 0, 0)
        self.assertEqual(1, len(plan.problems))
        turn = next_round(plan)
        self.assertEqual((0, 0), begun(turn))
        self.assertEqual(2, len(turn.holds))

    def test_a_plan_with_nothing_to_do_begins_nothing_and_waits_for_nothing(self):
        turn = next_round(plan_group(wanted(2), [node(), node(state=UNKNOWN)]))
        self.assertEqual(((), (), ()), (turn.adds, turn.removes, turn.holds))

    def test_a_count_that_changes_flavors_is_met_without_missing_a_node(self):
        one = wanted(flavors={'x': 3, 'y': 2}, strategy=strategy(1, 0))
        nodes = nodes_in({('x', None): 5})
        self.assertEqual((1, 0), begun(next_round(plan_group(one, nodes))))
        nodes.append(node('y', state=NodeState.BUILDING))
        self.assertEqual((0, 0), begun(next_round(plan_group(one, nodes))))


class Cloud:
    """Nodes that change at random, as the engine and its backends change them."""

    def __init__(self, nodes, seed):
        self.nodes = list(nodes)
        self.chance = random.Random(seed)

    def begin(self, turn):
        reasons = {act.node.id: act.reason for act in turn.removes}
        self.nodes = [
            dataclasses.replace(one, doomed=reasons.get(one.id, one.doomed)) for one in self.nodes
        ]
        for add in turn.adds:
            place = add.place
            new = node(place.flavor, place.zone, state=NodeState.PLANNED, made_with='new')
            self.nodes.append(new)

    def pass_time(self, trouble):
        moved = (
            dataclasses.replace(one, state=self.next_state(one, trouble)) for one in self.nodes
        )
        self.nodes = [one for one in moved if one.state is not NodeState.GONE]

    def next_state(self, one, trouble):
        going = {
            NodeState.DRAINING: NodeState.DELETING, NodeState.DELETING: NodeState.GONE,
        }  # fmt: skip
        coming = {
            NodeState.PLANNED: NodeState.BUILDING, NodeState.BUILDING: NodeState.JOINING,
            # The engine builds again what failed, and lost nodes come back.
            NodeState.FAILED: NodeState.BUILDING,
        }  # fmt: skip
        dice = self.chance.random()
        if dice < 0.5:
            return one.state
        if one.doomed:
            return going.get(one.state, NodeState.DRAINING)
        if trouble and dice > 0.9:
            troubles = (NodeState.UNHEALTHY, UNKNOWN, NodeState.FAILED)
            return self.chance.choice(troubles)
        # The engine builds again what failed, and lost nodes come back.
        return coming.get(
            one.state, NodeState.BUILDING if one.state is NodeState.FAILED else READY
        )

    def count(self, *states):
        return sum(one.state in states and not one.doomed for one in self.nodes)

    def undeleted(self):
        return sum(one.state is not NodeState.DELETING for one in self.nodes)

    def going(self):
        return sum(bool(one.doomed) and one.state is not NodeState.DELETING for one in self.nodes)


class Simulated(unittest.TestCase):
    """Whatever happens meanwhile, limits hold in every round, and the change completes."""

    def play(self, one, nodes, seed, trouble_turns):
        limits, count = one.group.strategy, one.group.shape.count
        most = count + limits.max_surge.of(count)
        least = count - limits.max_unavailable.of(count)
        cloud = Cloud(nodes, seed)
        for turns in range(2000):
            plan = plan_group(one, cloud.nodes, upgrade=True)
            if plan.empty and not plan.leaving and turns >= trouble_turns:
                return cloud
            before, ready, going = cloud.undeleted(), cloud.count(READY), cloud.going()
            turn = next_round(plan)
            cloud.begin(turn)
            if cloud.count(READY) < ready:
                self.assertGreaterEqual(cloud.count(READY), least)
            if turn.adds:
                self.assertLessEqual(cloud.undeleted(), most)
            self.assertEqual(before + len(turn.adds), cloud.undeleted())
            if limits.batch and turn.removes and count:
                self.assertLessEqual(cloud.going(), limits.batch)
                self.assertLess(going, limits.batch)
            again = next_round(plan_group(one, cloud.nodes, upgrade=True))
            self.assertEqual((0, 0), begun(again), 'begun twice')
            cloud.pass_time(trouble=turns < trouble_turns)
        return self.fail(f'no end: {turn}')

    strategies = st.builds(
        strategy, st.integers(0, 3), st.integers(0, 3), st.none() | st.integers(1, 4)
    ).filter(lambda found: found.max_surge.amount + found.max_unavailable.amount)

    @UNTIMED
    @given(groups(most=8), shapes(most=8), strategies, st.integers(), st.sampled_from([0, 20]))
    def test_any_change_of_shape_and_spec_completes(
        self, before, shape, limits, seed, trouble_turns
    ):
        nodes = [dataclasses.replace(one, made_with='old') for one in new_group(before)]
        one = reshaped(wanted(0, made_with='new', strategy=limits), shape)
        cloud = self.play(one, nodes, seed, trouble_turns)
        self.assertEqual(shape.count, len(cloud.nodes))
        self.assertEqual({'new'}, {each.made_with for each in cloud.nodes} or {'new'})
        self.assertEqual([], [each for each in cloud.nodes if each.doomed])

    @UNTIMED
    @given(st.integers(1, 12), strategies, st.integers())
    def test_an_undisturbed_upgrade_keeps_to_its_batch_and_replaces_each_node_once(
        self, count, limits, seed
    ):
        made = []

        class Counted(Cloud):
            def begin(self, turn):
                super().begin(turn)
                made.extend(turn.adds)
                if limits.batch:
                    making = self.count(*MAKING)
                    assert making <= limits.batch, (making, limits)

        one = wanted(zones=counted(az1=count), made_with='new', strategy=limits)
        nodes = nodes_in({('small', 'az1'): count}, made_with='old')
        cloud = Counted(nodes, seed)
        for _ in range(2000):
            plan = plan_group(one, cloud.nodes, upgrade=True)
            if plan.empty and not plan.leaving:
                break
            cloud.begin(next_round(plan))
            cloud.pass_time(trouble=False)
        self.assertTrue(plan.empty)
        self.assertEqual(count, len(made))
