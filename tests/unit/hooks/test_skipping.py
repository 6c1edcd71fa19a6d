"""Who has a hook passed over, and which can be."""

import dataclasses
import unittest

from kiln.cluster_exceptions import HookNotFound
from kiln.cluster_models import OperationState, Step, StepState
from kiln.hooks.points import Point
from kiln.hooks.run import SKIP_EVENT
from kiln.hooks.skipping import skip_event
from tests.unit.hooks.samples import hook, operation


def step(name, state, point='pre_create', node_id=None):
    return Step(
        id=f'{point}.{name}.{node_id}', operation_id='op1', cluster_id='c1', kind='hook',
        state=state, node_id=node_id, result={'point': point, 'hook': name},
    )  # fmt: skip


class Skipping(unittest.TestCase):
    def event(self, name='cmdb', steps=(), hooks=(), reason='the rack is gone', **more):
        return skip_event(
            dataclasses.replace(operation(), **more), steps, hooks,
            name=name, reason=reason, by='ann',
        )  # fmt: skip

    def test_the_event_says_who_and_why(self):
        event = self.event(steps=[step('cmdb', StepState.INTENT)])
        self.assertEqual(
            (SKIP_EVENT, 'c1', 'op1', {'hook': 'cmdb', 'reason': 'the rack is gone', 'by': 'ann'}),
            (event.kind, event.cluster_id, event.operation_id, dict(event.facts)),
        )
        self.assertIn('ann has hook cmdb passed over: the rack is gone', event.message)

    def test_one_whose_turn_has_not_come_can_be_passed_over_too(self):
        self.event('pre_create/cmdb', hooks=[hook('cmdb', Point.PRE_CREATE)])
        self.event('driver')
        self.event('pre_create/driver')

    def test_at_a_point_of_nodes_one_may_wait_though_others_are_through(self):
        point = 'pre_node_delete'
        self.event(
            steps=[step('cmdb', StepState.INTENT, point, 'n1'),
                   step('cmdb', StepState.DONE, point, 'n2')]
        )  # fmt: skip

    def test_what_nobody_waits_for_is_told(self):
        for more, why in (
            ({}, 'There are: none'),
            ({'hooks': [hook('news', Point.PRE_CREATE)]}, 'There are: pre_create/news'),
            ({'steps': [step('cmdb', StepState.DONE)]}, 'over there already'),
            ({'state': OperationState.FAILED}, 'it is failed and waits for none'),
            ({'steps': [Step(id='s', operation_id='op1', cluster_id='c1', kind='build')]}, 'none'),
        ):
            with self.subTest(why), self.assertRaisesRegex(HookNotFound, why):
                self.event(**more)

    def test_a_reason_is_fit_to_be_shown(self):
        event = self.event('driver', reason='a\x1b[31m\nb')
        self.assertEqual('a b', event.facts['reason'])
