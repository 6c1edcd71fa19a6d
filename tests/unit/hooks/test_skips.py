"""Skip events: which hooks can be skipped, and what is recorded."""

import dataclasses
import unittest

from kiln.clusters.exceptions import HookNotFound
from kiln.clusters.models import OperationState, Step, StepState
from kiln.hooks.points import Point
from kiln.hooks.run import SKIP_EVENT
from kiln.hooks.skips import skip_event
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

    def test_the_event_records_the_user_and_the_reason(self):
        event = self.event(steps=[step('cmdb', StepState.INTENT)])
        self.assertEqual(
            (SKIP_EVENT, 'c1', 'op1', {'hook': 'cmdb', 'reason': 'the rack is gone', 'by': 'ann'}),
            (event.kind, event.cluster_id, event.operation_id, dict(event.facts)),
        )
        self.assertIn('ann skipped hook cmdb: the rack is gone', event.message)

    def test_a_hook_can_be_skipped_before_its_first_call(self):
        self.event('pre_create/cmdb', hooks=[hook('cmdb', Point.PRE_CREATE)])
        self.event('driver')
        self.event('pre_create/driver')

    def test_a_hook_that_waits_for_one_node_can_be_skipped(self):
        point = 'pre_node_delete'
        self.event(
            steps=[step('cmdb', StepState.INTENT, point, 'n1'),
                   step('cmdb', StepState.DONE, point, 'n2')]
        )  # fmt: skip

    def test_a_hook_that_nothing_waits_for_is_refused(self):
        for more, why in (
            ({}, 'There are: none'),
            ({'hooks': [hook('news', Point.PRE_CREATE)]}, 'There are: pre_create/news'),
            ({'steps': [step('cmdb', StepState.DONE)]}, 'has already ended'),
            ({'state': OperationState.FAILED}, 'is failed and does not wait'),
            ({'steps': [Step(id='s', operation_id='op1', cluster_id='c1', kind='build')]}, 'none'),
        ):
            with self.subTest(why), self.assertRaisesRegex(HookNotFound, why):
                self.event(**more)

    def test_a_reason_is_made_safe_to_show(self):
        event = self.event('driver', reason='a\x1b[31m\nb')
        self.assertEqual('a b', event.facts['reason'])
