"""Hook values: points, order, filters, keys and payload."""

import json
import unittest

from kiln.clusters.models import OperationKind
from kiln.hooks.hook import Plugin, Webhook, in_order, invocation_id
from kiln.hooks.invocation import Call
from kiln.hooks.payload import Outcome
from kiln.hooks.points import OnDeadline, OnFailure, Point, after, before
from tests.unit.hooks.samples import NODE, hook, occasion


class Points(unittest.TestCase):
    def test_000_7_every_change_of_a_cluster_has_a_point_before_and_after(self):
        for kind in OperationKind:
            with self.subTest(kind):
                changes = kind not in (OperationKind.ADOPT, OperationKind.CHECK)
                self.assertEqual((changes, changes), (bool(before(kind)), bool(after(kind))))
        self.assertIs(Point.PRE_CREATE, before(OperationKind.CREATE))
        self.assertIs(Point.POST_CREATE, after(OperationKind.CREATE))
        self.assertIs(Point.PRE_UPDATE, before(OperationKind.REBOOT))
        self.assertIs(Point.POST_DELETE, after(OperationKind.DELETE))

    def test_000_7_points_exist_for_the_cluster_and_for_each_node(self):
        self.assertEqual(
            {
                Point.PRE_NODE_BUILD,
                Point.POST_NODE_READY,
                Point.PRE_NODE_DELETE,
                Point.PRE_NODE_TERMINATE,
            },
            {point for point in Point if point.per_node},
        )

    def test_22_a_hook_cannot_prevent_a_removal_for_ever(self):
        for point in (Point.PRE_DELETE, Point.PRE_NODE_DELETE, Point.PRE_NODE_TERMINATE):
            one = hook('a', point)
            self.assertEqual(
                (OnFailure.RETRY, OnDeadline.CONTINUE), (one.at_failure, one.at_deadline), point
            )

    def test_a_policy_of_the_hook_overrides_the_default_of_the_point(self):
        one = hook('a', Point.PRE_DELETE, on_failure=OnFailure.FAIL, on_deadline=OnDeadline.FAIL)
        self.assertEqual((OnFailure.FAIL, OnDeadline.FAIL), (one.at_failure, one.at_deadline))

    def test_other_points_fail_or_warn(self):
        for point, failure, deadline in (
            (Point.PRE_CREATE, OnFailure.FAIL, OnDeadline.FAIL),
            (Point.POST_CREATE, OnFailure.FAIL, OnDeadline.FAIL),
            (Point.POST_CONTROL_PLANE, OnFailure.WARN, OnDeadline.CONTINUE),
            (Point.POST_UPDATE, OnFailure.WARN, OnDeadline.CONTINUE),
            (Point.POST_DELETE, OnFailure.WARN, OnDeadline.CONTINUE),
            (Point.POST_NODE_READY, OnFailure.FAIL, OnDeadline.FAIL),
        ):
            self.assertEqual((failure, deadline), (point.on_failure, point.on_deadline), point)


class Order(unittest.TestCase):
    def test_the_lowest_order_is_first_before_and_last_after(self):
        for point, names in ((Point.PRE_CREATE, 'zab'), (Point.POST_CREATE, 'baz')):
            hooks = [
                hook('b', point), hook('z', point, order=1), hook('a', point),
                hook('other', Point.PRE_DELETE),
            ]  # fmt: skip
            self.assertEqual(list(names), [one.name for one in in_order(hooks, point)])


class Keys(unittest.TestCase):
    def test_the_key_is_the_same_in_every_process(self):
        self.assertEqual(
            'eac7a59d-c321-5513-adb3-bcd2ef108816',
            invocation_id('op1', Point.PRE_CREATE, 'a', None),
        )

    def test_each_operation_point_hook_and_node_has_its_own_key(self):
        keys = {
            invocation_id(operation, point, name, node)
            for operation in ('op1', 'op2')
            for point in (Point.PRE_CREATE, Point.PRE_NODE_BUILD)
            for name in ('a', 'b')
            for node in (None, 'n1', 'n2')
        }
        self.assertEqual(24, len(keys))


class Filters(unittest.TestCase):
    def test_a_hook_is_called_for_everything_or_for_the_names_it_lists(self):
        said = {'cluster': 'web', 'driver': 'swarm_v1', 'kind': OperationKind.RESIZE}
        for more, wanted in (
            ({}, True),
            ({'clusters': ('web', 'db')}, True),
            ({'clusters': ('db',)}, False),
            ({'drivers': ('swarm_v1',)}, True),
            ({'drivers': ('heat',)}, False),
            ({'kinds': (OperationKind.RESIZE,)}, True),
            ({'kinds': (OperationKind.REBOOT,)}, False),
        ):
            with self.subTest(more):
                self.assertIs(wanted, hook('a', Point.PRE_UPDATE, **more).is_for(**said))


class Contradictions(unittest.TestCase):
    def fields(self, point, **more):
        return [field for field, _ in hook('a', point, **more).contradictions()]

    def test_contradictions_are_reported_by_field(self):
        self.assertEqual([], self.fields(Point.PRE_CREATE))
        fail, late = OnFailure.FAIL, OnDeadline.FAIL
        self.assertEqual(
            ['on_failure', 'on_deadline'],
            self.fields(Point.POST_DELETE, on_failure=fail, on_deadline=late),
        )
        self.assertEqual([], self.fields(Point.POST_DELETE, on_failure=OnFailure.WARN))
        self.assertEqual(['timeout'], self.fields(Point.PRE_CREATE, timeout_s=9, deadline_s=8))
        self.assertEqual(['retries'], self.fields(Point.PRE_CREATE, retries=2))
        self.assertEqual([], self.fields(Point.PRE_DELETE, retries=2))


class Document(unittest.TestCase):
    def test_the_payload_holds_the_occasion_and_the_call(self):
        call = Call(hook('a', Point.POST_NODE_READY), 'key', 3, Outcome.SUCCEEDED)
        said = json.loads(json.dumps(call.document(occasion(NODE).document())))
        self.assertEqual('10.0.0.5', said['node']['address'])
        self.assertEqual(['10.0.0.5', 'fd00::5'], said['node']['addresses'])
        self.assertEqual('worker', said['node']['role'])
        self.assertEqual('swarm_v1', said['cluster']['driver']['name'])
        self.assertEqual(
            [{'name': 'work', 'role': 'worker', 'count': 2}], said['cluster']['groups']
        )
        self.assertEqual(
            ['key', 3, 'post_node_ready', 'a', 'succeeded', 'create', 1],
            [said[key] for key in ('invocation', 'attempt', 'point', 'hook', 'outcome')]
            + [said['operation']['kind'], said['version']],
        )

    def test_node_and_outcome_are_null_where_they_do_not_apply(self):
        said = Call(hook('a', Point.PRE_CREATE), 'key', 1, None).document(occasion().document())
        self.assertEqual((None, None), (said['node'], said['outcome']))

    def test_the_payload_contains_no_template_parameters(self):
        self.assertNotIn('hunter2', json.dumps(occasion(NODE).document()))


class Targets(unittest.TestCase):
    def test_a_target_is_shown_as_what_it_calls(self):
        self.assertEqual('/a', str(hook('a', Point.PRE_CREATE).target))
        self.assertEqual('https://x/', str(Webhook('https://x/', '/etc/secret')))
        self.assertEqual(
            'unittest.case:TestCase.assertIs', str(Plugin(unittest.TestCase.assertIs))
        )
