"""Dead nodes are replaced one by one, and not at all if too many are dead."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.clock import clock_time
from kiln.clusters.models import Cause, NodeState
from kiln.clusters.spec import Health, Portion
from kiln.engine.plan.diff import plan_group
from kiln.engine.plan.repair import Setback, remediate
from tests.unit.engine.groups import UNTIMED, node, wanted

NOW = 10_000.0
SICK = {'state': NodeState.UNHEALTHY, 'since': NOW - 300.0}


def group(count, **health):
    return wanted(count, health=Health(**health)).group


def well(count):
    return [node() for _ in range(count)]


class Remediation(unittest.TestCase):
    def test_a_failed_node_is_given_up_at_once_with_its_cause(self):
        cause = Cause(code='no_host', message='No valid host was found')
        dead = node(state=NodeState.FAILED, since=NOW, cause=cause)
        found = remediate(group(4), [dead, *well(3)], NOW)
        self.assertEqual({dead.id: 'failed: No valid host was found'}, dict(found.victims))
        self.assertEqual('', found.hold)

    def test_repeated_failures_are_replaced_with_growing_pauses(self):
        dead = node(state=NodeState.FAILED, since=NOW)
        for count, wait_s in ((1, 0), (2, 1), (3, 2), (4, 4), (9, 60), (1000, 60)):
            with self.subTest(count=count):
                setback = Setback(count, NOW)
                if wait_s:
                    found = remediate(group(4), [dead, *well(3)], NOW + wait_s - 0.6, setback)
                    self.assertEqual({}, dict(found.victims))
                    self.assertIn(f'{count} nodes failed in a row', found.hold)
                    # The same text until then, so that it is printed once.
                    self.assertIn(clock_time(NOW + wait_s), found.hold)
                found = remediate(group(4), [dead, *well(3)], NOW + wait_s, setback)
                self.assertEqual({dead.id}, set(found.victims))

    def test_a_clock_that_was_set_back_ends_the_pause_after_failures(self):
        dead = node(state=NodeState.FAILED, since=NOW)
        found = remediate(group(4), [dead, *well(3)], NOW - 3600, Setback(9, NOW))
        self.assertEqual({dead.id}, set(found.victims))

    def test_an_unhealthy_node_has_time_to_recover(self):
        sick = node(**SICK)
        self.assertEqual({}, dict(remediate(group(4), [sick, *well(3)], NOW - 1).victims))
        found = remediate(group(4), [sick, *well(3)], NOW)
        self.assertEqual({sick.id: 'unhealthy for 300 s'}, dict(found.victims))

    def test_a_node_that_does_not_start_is_given_up(self):
        for state in (NodeState.BUILDING, NodeState.BOOTING, NodeState.JOINING):
            slow = node(state=state, since=NOW - 600.0)
            self.assertEqual({}, dict(remediate(group(4), [slow, *well(3)], NOW - 1).victims))
            found = remediate(group(4), [slow, *well(3)], NOW)
            self.assertEqual({slow.id: f'{state} for 600 s'}, dict(found.victims))

    def test_a_planned_node_is_not_given_up(self):
        waits = node(state=NodeState.PLANNED, since=0.0)
        self.assertEqual({}, dict(remediate(group(1), [waits], NOW).victims))

    def test_a_node_of_unknown_state_is_never_given_up(self):
        lost = node(state=NodeState.UNKNOWN, since=0.0)
        self.assertEqual({}, dict(remediate(group(4), [lost, *well(3)], NOW).victims))

    def test_a_node_that_is_being_removed_is_left_alone(self):
        going = [node(**SICK, doomed='failed'), node(state=NodeState.GONE, since=0.0)]
        self.assertEqual({}, dict(remediate(group(3), [*going, *well(3)], NOW).victims))

    def test_the_longest_sick_node_is_given_up_first_and_one_at_a_time(self):
        first, second = node(state=NodeState.UNHEALTHY, since=10.0), node(**SICK)
        found = remediate(group(6), [second, first, *well(4)], NOW)
        self.assertEqual([first.id], list(found.victims))
        self.assertEqual('others are under way, and max_in_flight is 1', found.hold)

    def test_a_replacement_under_way_holds_up_the_next(self):
        sick = node(**SICK)
        new = node(state=NodeState.BUILDING, since=NOW)
        # So does a missing node that is not planned so far.
        for there in ([sick, new, *well(4)], [sick, *well(4)]):
            found = remediate(group(6), there, NOW)
            self.assertEqual({}, dict(found.victims))
            self.assertEqual('others are under way, and max_in_flight is 1', found.hold)
        found = remediate(group(6, max_in_flight=2), [sick, *well(4)], NOW)
        self.assertEqual([sick.id], list(found.victims))


class Brake(unittest.TestCase):
    def test_with_too_many_unhealthy_none_is_replaced(self):
        sick = [node(**SICK) for _ in range(5)]
        found = remediate(group(10, max_in_flight=9), [*sick, *well(5)], NOW)
        self.assertEqual({}, dict(found.victims))
        self.assertEqual(
            'the brake holds: 5 of 10 nodes are unhealthy or unknown, and max_unhealthy is 40%',
            found.hold,
        )

    def test_with_as_many_unhealthy_as_allowed_they_are_replaced(self):
        sick = [node(**SICK) for _ in range(4)]
        found = remediate(group(10, max_in_flight=9), [*sick, *well(6)], NOW)
        self.assertEqual(4, len(found.victims))

    def test_newly_unhealthy_and_unknown_nodes_count_for_the_brake(self):
        for state in (NodeState.UNHEALTHY, NodeState.UNKNOWN):
            others = [node(state=state, since=NOW) for _ in range(4)]
            found = remediate(group(10), [node(**SICK), *others, *well(5)], NOW)
            self.assertIn('the brake holds: 5 of 10', found.hold)

    def test_one_sick_node_of_a_small_group_is_replaced(self):
        for size in (1, 2):
            found = remediate(group(size), [node(**SICK), *well(size - 1)], NOW)
            self.assertEqual(1, len(found.victims))
        pair = [node(**SICK), node(**SICK)]
        self.assertIn('the brake holds', remediate(group(2), pair, NOW).hold)

    def test_of_too_many_nodes_that_failed_one_at_a_time_is_replaced(self):
        failed = [node(state=NodeState.FAILED, since=NOW - 9 + n) for n in range(8)]
        healthy = well(4)
        found = remediate(group(12, max_in_flight=9), [*failed, *healthy], NOW)
        self.assertEqual([failed[0].id], list(found.victims))
        self.assertIn('those that failed are replaced one at a time', found.hold)
        # Its successor is under way.
        new = node(state=NodeState.BUILDING, since=NOW)
        found = remediate(group(12, max_in_flight=9), [*failed[1:], new, *healthy], NOW)
        self.assertEqual({}, dict(found.victims))
        found = remediate(group(12, max_in_flight=9), [*failed[1:], *healthy], NOW)
        self.assertEqual({}, dict(found.victims))

    def test_of_too_many_nodes_that_failed_none_is_replaced_while_another_is_unknown(self):
        failed = [node(state=NodeState.FAILED, since=NOW) for _ in range(8)]
        found = remediate(group(9), [*failed, node(state=NodeState.UNKNOWN)], NOW)
        self.assertEqual({}, dict(found.victims))
        self.assertIn('the brake holds', found.hold)

    def test_the_pause_after_failures_in_a_row_holds_while_the_brake_does(self):
        failed = [node(state=NodeState.FAILED, since=NOW) for _ in range(8)]
        found = remediate(group(8), failed, NOW, Setback(count=8, at=NOW))
        self.assertEqual({}, dict(found.victims))
        self.assertIn('8 nodes failed in a row', found.hold)

    def test_max_unhealthy_zero_replaces_none(self):
        for none in (Portion(0), Portion(0, percent=True)):
            found = remediate(group(3, max_unhealthy=none), [node(**SICK), *well(2)], NOW)
            self.assertIn('the brake holds', found.hold)

    def test_a_brake_that_holds_no_node_reports_nothing(self):
        lost = [node(state=NodeState.UNKNOWN) for _ in range(3)]
        self.assertEqual('', remediate(group(3), lost, NOW).hold)

    @UNTIMED
    @given(
        st.lists(st.sampled_from(NodeState), max_size=20),
        st.integers(0, 100),
        st.integers(0, 5),
    )
    def test_never_more_are_replaced_than_brake_and_limit_allow(self, states, percent, limit):
        nodes = [node(state=state, since=0.0) for state in states]
        one = wanted(
            len(nodes),
            health=Health(max_unhealthy=Portion(percent, percent=True), max_in_flight=limit),
        )
        found = remediate(one.group, nodes, NOW)
        live = [each for each in nodes if not each.state.leaving]
        bad = [each for each in live if each.state not in (NodeState.READY, NodeState.PLANNED)]
        self.assertLessEqual(len(found.victims), limit)
        if found.victims:
            allowed = max(percent > 0, percent * len(live) // 100)
            if len(bad) > allowed:
                self.assertGreater(percent, 0)
                self.assertNotIn(NodeState.UNKNOWN, {each.state for each in live})
                (only,) = found.victims
                (victim,) = [each for each in nodes if each.id == only]
                self.assertIs(NodeState.FAILED, victim.state)
                self.assertIn('one at a time', found.hold or 'one at a time')
            plan = plan_group(one, nodes, victims=found.victims)
            gone = {act.node.id for act in plan.removes}
            self.assertEqual(set(found.victims), gone)
        self.assertFalse(
            set(found.victims)
            & {each.id for each in nodes if each.state in (NodeState.UNKNOWN, NodeState.READY)}
        )
