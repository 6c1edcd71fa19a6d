"""The driver's choice in a plan: which nodes go, and which wait."""

import collections
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.clusters.models import NodeState
from kiln.engine.plan.choice import Choice, all_held, questions
from kiln.engine.plan.diff import plan_cluster, plan_group
from kiln.engine.plan.rollout import next_round
from tests.unit.engine.groups import UNTIMED, groups, node, nodes_in, wanted


def places(changes):
    return collections.Counter(change.node.place for change in changes)


def ids(changes):
    return [change.node.id for change in changes]


class Choices(unittest.TestCase):
    def test_the_driver_chooses_among_the_nodes_of_a_place(self):
        nodes = [node(zone='az1'), node(zone='az1'), node(zone='az2')]
        for chosen in nodes[:2]:
            choice = Choice(removed=(chosen.id, nodes[2].id))
            plan = plan_group(wanted(2), nodes, choice=choice)
            self.assertEqual([chosen.id], ids(plan.removes))
            self.assertFalse(plan.removes[0].held)

    def test_a_node_that_the_plan_has_shown_goes_before_others(self):
        nodes = [node(), node(), node()]
        for shown in nodes:
            plan = plan_group(wanted(2), nodes, choice=Choice(shown=(shown.id,)))
            self.assertEqual([shown.id], ids(plan.removes))

    def test_without_consent_no_node_goes_and_the_round_asks(self):
        for plan in (
            plan_group(wanted(0), [node(), node()], choice=all_held()),
            plan_group(wanted(1), [node(), node()], choice=all_held()),
            *plan_cluster('c', [wanted(1)], [node(group='old')], exists=True,
                          choice=all_held()).groups[1:],
        ):  # fmt: skip
            begun = next_round(plan)
            self.assertEqual(((), True), (begun.removes, begun.asks))
            self.assertIn('does not let', begun.holds[0])

    def test_a_node_that_cannot_go_anyway_is_no_question(self):
        nodes = [node(made_with='old'), node(made_with='old')]
        plan = plan_group(wanted(2, made_with='new'), nodes, upgrade=True, choice=all_held())
        self.assertFalse(next_round(plan).asks, 'its successor is not built')

    def test_an_outdated_node_is_replaced_and_never_its_successor(self):
        old, fresh = [node(made_with='old') for _ in range(2)], node(made_with='new')
        one = wanted(2, made_with='new')
        held = plan_group(one, [*old, fresh], upgrade=True, choice=all_held())
        (question,) = questions(held)
        self.assertEqual((True, set(old)), (question.replaced, set(question.nodes)))
        choice = Choice(removed=(fresh.id,), replaced=(old[1].id,))
        plan = plan_group(one, [*old, fresh], upgrade=True, choice=choice)
        self.assertEqual([old[1].id], ids(next_round(plan).removes))

    def test_a_dead_node_is_replaced_without_consent(self):
        dead = node(made_with='old', state=NodeState.FAILED)
        plan = plan_group(wanted(1, made_with='new'), [dead], upgrade=True, choice=all_held())
        self.assertEqual([dead.id], ids(next_round(plan).removes))

    def test_only_the_shown_nodes_of_a_place_are_asked_about(self):
        nodes = [node(), node(), node()]
        choice = all_held([nodes[1].id])
        plan = plan_group(wanted(2), nodes, choice=choice)
        (question,) = questions(plan, choice.shown)
        self.assertEqual((nodes[1],), question.nodes)
        self.assertEqual(3, len(next(questions(plan)).nodes))


class Properties(unittest.TestCase):
    @UNTIMED
    @given(groups(), st.lists(st.integers(0, 40)), st.booleans())
    def test_a_choice_changes_which_nodes_go_and_not_how_many_of_a_place(
        self, one, order, upgrade
    ):
        nodes = nodes_in({('small', None): 3, ('small', 'az1'): 3, ('large', 'az2'): 2})
        chosen = tuple(dict.fromkeys(nodes[index % len(nodes)].id for index in order))
        rules = plan_group(one, nodes, upgrade=upgrade)
        choice = Choice(removed=chosen, replaced=chosen)
        plan = plan_group(one, nodes, upgrade=upgrade, choice=choice)
        self.assertEqual(places(rules.removes), places(plan.removes))
        self.assertEqual(places(rules.replaces), places(plan.replaces))
        self.assertEqual(rules.table, plan.table)
        gone = {change.node.id for change in next_round(plan).removes}
        self.assertLessEqual(gone, set(chosen))
