"""The next nodes to reset: never more than allowed, each once, from any state."""

import dataclasses
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.cluster_drivers.values import Cap
from kiln.clusters.models import NodeState, OperationKind
from kiln.clusters.spec import Portion, Strategy
from kiln.engine.plan.reset_rounds import next_reset_round, pace, refusal
from kiln.models import Ability, Capabilities, Limits
from tests.unit.engine.groups import UNTIMED, node, wanted
from tests.unit.engine.site import Plain


def group(count, unavailable=0, batch=None):
    strategy = Strategy(max_unavailable=Portion(unavailable), batch=batch)
    return wanted(count, strategy=strategy).group


def ready(count):
    return [node(compute_id=f'm-{number}') for number in range(count)]


def other(one, state, **more):
    return dataclasses.replace(one, state=state, **more)


class Rounds(unittest.TestCase):
    def begun(self, group, nodes, settled=(), named=None):
        return next_reset_round(group, nodes, settled, named).begins

    def test_with_max_unavailable_zero_one_node_goes_and_the_hold_says_so(self):
        nodes = ready(3)
        found = next_reset_round(group(3), nodes, ())
        self.assertEqual((nodes[0],), found.begins)
        self.assertEqual(tuple(nodes[1:]), found.waiting)
        self.assertIn('max_unavailable is 0, but one goes in any case', found.holds[0])

    def test_the_pace_is_reported_for_people(self):
        self.assertEqual(
            '1 at a time: max_unavailable is 0, but one goes in any case', pace(group(3))
        )
        self.assertEqual('2 at a time: max_unavailable is 2', pace(group(3, 2, batch=2)))
        self.assertEqual('2 at a time: batch is 2', pace(group(5, 3, batch=2)))

    def test_as_many_go_as_max_unavailable_and_batch_allow(self):
        self.assertEqual(3, len(self.begun(group(5, 3), ready(5))))
        self.assertEqual(2, len(self.begun(group(5, 3, batch=2), ready(5))))
        found = next_reset_round(group(5, 3, batch=2), ready(5), ())
        self.assertEqual(('2 nodes are out of work, and batch is 2',), found.holds)

    def test_nodes_already_out_of_work_count(self):
        nodes = ready(4)
        nodes[3] = other(nodes[3], NodeState.UNHEALTHY)
        named = {nodes[0].id, nodes[1].id}
        self.assertEqual(1, len(self.begun(group(4, 2), nodes, named=named)))
        self.assertEqual((), self.begun(group(4, 1), nodes, named=named))

    def test_nodes_that_do_not_work_go_first_and_cost_no_capacity(self):
        nodes = ready(3)
        nodes[2] = other(nodes[2], NodeState.UNHEALTHY)
        self.assertEqual((nodes[2],), self.begun(group(3), nodes))
        nodes[2] = other(nodes[2], NodeState.FAILED)
        self.assertEqual((nodes[2],), self.begun(group(3), nodes))

    def test_a_node_without_a_machine_cannot_be_reset_and_fails(self):
        dead = node(state=NodeState.FAILED)
        self.assertEqual((dead,), next_reset_round(group(1), [dead], ()).failed)

    def test_nodes_being_built_or_unknown_are_waited_for(self):
        nodes = [node(state=state, name=state) for state in (NodeState.JOINING, NodeState.UNKNOWN)]
        found = next_reset_round(group(2, 2), nodes, ())
        self.assertEqual(((), tuple(nodes)), (found.begins, found.waiting))
        self.assertEqual(('joining is joining', 'unknown is unknown'), found.holds)

    def test_nodes_being_removed_are_left_alone(self):
        nodes = [other(one, NodeState.READY, doomed='asked for') for one in ready(2)]
        found = next_reset_round(group(0, 2), nodes, ())
        self.assertEqual(((), (), ()), (found.begins, found.waiting, found.under_way))

    def test_a_node_taken_out_by_an_earlier_operation_is_brought_back(self):
        out = node(state=NodeState.RESETTING, compute_id='m')
        self.assertEqual((out,), next_reset_round(group(1), [out], ()).under_way)

    @UNTIMED
    @given(st.data())
    def test_001_8_never_too_many_are_out_of_work_and_each_is_reset_once(self, data):
        count = data.draw(st.integers(1, 8))
        one = group(count, data.draw(st.integers(0, 4)), data.draw(st.none() | st.integers(1, 4)))
        allowed = max(1, one.strategy.max_unavailable.amount)
        nodes = {each.id: each for each in ready(count)}
        named = data.draw(st.none() | st.sets(st.sampled_from(sorted(nodes)), min_size=1))
        settled, sent = set(), []
        # Each round knows only what is written, as after a crash.
        while True:
            found = next_reset_round(one, nodes.values(), settled, named)
            for each in found.begins:
                nodes[each.id] = other(each, NodeState.RESETTING)
                sent.append(each.id)
            out = [each for each in nodes.values() if each.state is not NodeState.READY]
            self.assertLessEqual(len(out), allowed)
            away = [each for each in out if each.state is not NodeState.FAILED]
            if one.strategy.batch:
                self.assertLessEqual(len(away), one.strategy.batch)
            if not away:
                break
            each = data.draw(st.sampled_from(sorted(away, key=lambda each: each.id)))
            fails = data.draw(st.integers(0, 9)) == 0
            resetting = each.state is NodeState.RESETTING
            if resetting:
                settled.add(each.id)
            well = NodeState.JOINING if resetting else NodeState.READY
            nodes[each.id] = other(each, NodeState.FAILED if fails else well)
        failed = [each for each in nodes.values() if each.state is NodeState.FAILED]
        self.assertEqual(len(sent), len(set(sent)))
        self.assertEqual({each.id for each in failed}, {each.id for each in found.failed})
        if len(failed) < allowed:
            self.assertEqual(set(nodes) if named is None else named, set(sent))
        else:
            self.assertEqual(
                set(found.waiting),
                {nodes[one] for one in (named or nodes)} - {nodes[one] for one in sent},
            )


class Unable(Plain):
    missing_capabilities = frozenset({Cap.REBOOT, Cap.RESIZE, Cap.UPGRADE})


class Refusal(unittest.TestCase):
    def able(self, *abilities):
        return Capabilities(driver='east', abilities=frozenset(abilities), limits=Limits())

    def test_it_needs_the_ability_of_every_backend(self):
        both = (self.able(Ability.REBOOT), self.able())
        for kind, ability in (
            (OperationKind.REBOOT, 'reboot'),
            (OperationKind.REBUILD, 'rebuild'),
        ):
            error = refusal(kind, Plain(), both)
            self.assertIn(f'backend east lacks the ability {ability}', str(error))
        self.assertIsNone(refusal(OperationKind.REBOOT, Plain(), both[:1]))

    def test_it_needs_the_capability_of_the_cluster_driver(self):
        for kind in (OperationKind.REBOOT, OperationKind.RESIZE, OperationKind.UPGRADE):
            with self.subTest(kind=kind):
                error = refusal(kind, Unable(), ())
                self.assertEqual('missing_capability', error.code)

    def test_operations_without_resets_need_no_abilities(self):
        for kind in (OperationKind.RESIZE, OperationKind.UPGRADE, OperationKind.CREATE):
            self.assertIsNone(refusal(kind, Plain(), (self.able(),)))
