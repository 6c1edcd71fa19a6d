"""Answers of drivers that the contract allows, and that it does not."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.cluster_drivers.answers import checked, plain_mapping
from kiln.cluster_drivers.values import Bootstrap, Drained, Progress, Readiness, StatusReport
from kiln.clusters.exceptions import ClusterDriverDefect, Problem

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)  # fmt: skip


class Answers(unittest.TestCase):
    def assert_refused(self, method, answer, told):
        with self.assertRaises(ClusterDriverDefect) as caught:
            checked('x_v1', method, answer)
        said = str(caught.exception)
        self.assertIn(f'Cluster driver x_v1 returned a wrong answer from {method}: {told}', said)
        self.assertIn('report it to its author', said)

    def test_a_wrong_report_is_refused_with_what_is_wrong(self):
        deep = {}
        deep['deep'] = deep
        for answer, told in (
            ({'progress': 'complete'}, 'it is of type dict, not a StatusReport or None'),
            (StatusReport(progress='done'), "its progress is 'done', not one of in_progress"),
            (StatusReport(progress=['x']), "its progress is ['x'], not one of"),
            (StatusReport(reason=None), 'its reason is None, not a str'),
            (StatusReport(driver_handle=7), 'its driver_handle is of type int'),
            (StatusReport(driver_handle='x' * 256), 'its driver_handle is longer than 255'),
            (StatusReport(driver_state=[1]), 'its driver_state is of type list, not a Mapping'),
            (
                StatusReport(driver_state={'at': {1, 2}}),
                'its driver_state.at is of type set, which JSON does not have',
            ),
            (StatusReport(driver_state={7: 'x'}), 'the key 7 in its driver_state is not a string'),
            (StatusReport(outputs={'x': [float('nan')]}), 'its outputs.x[0] is nan'),
            (StatusReport(driver_state=deep), 'its driver_state.deep'),
            (StatusReport(events='a node was made'), 'its events is of type str, not a list or a'),
            (StatusReport(events=['a', 1]), 'one of its events is not a str'),
        ):
            with self.subTest(told):
                self.assert_refused('update_cluster_status', answer, told)

    def test_a_wrong_answer_about_a_node_is_refused_with_what_is_wrong(self):
        for method, answer, told in (
            ('bootstrap', None, 'it is None, not a Bootstrap'),
            ('bootstrap', Bootstrap(user_data='#!/bin/sh'), 'its user_data is of type str'),
            ('bootstrap', Bootstrap(files=('/a',)), 'one of its files is of type str, not an Inj'),
            ('bootstrap', Bootstrap(join_token=b'x'), 'its join_token is of type bytes'),
            ('is_ready', True, 'it is of type bool, not a Readiness'),
            ('is_ready', Readiness('ready'), 'its state is of type str, not a ReadyState'),
            ('drain', None, 'it is None, not a Drained'),
            ('drain', Drained(done=True, reason=None), 'its reason is None'),
            ('validate', None, 'it is None, not a list of Problem'),
            ('validate', 'wrong', 'it is of type str, not a list of Problem'),
            ('validate', ['wrong'], 'it is a list with other values, not a list of Problem'),
            ('get_scale_manager', None, 'it is None, not a ScaleManager'),
            ('get_monitor', 7, 'it is of type int, not a Monitor or None'),
            ('compute_driver_for', 7, 'it is of type int, not a str or None'),
        ):
            with self.subTest(method, told=told):
                self.assert_refused(method, answer, told)

    def test_a_word_for_the_progress_is_the_progress(self):
        report = checked('x_v1', 'create_cluster', StatusReport(progress='complete'))
        self.assertIs(Progress.COMPLETE, report.progress)

    def test_allowed_answers_are_passed_on(self):
        problems = [Problem(message='wrong')]
        self.assertEqual(tuple(problems), checked('x_v1', 'validate', problems))
        self.assertIsNone(checked('x_v1', 'create_cluster', None))
        # Nothing reads what a hook returns.
        self.assertEqual(7, checked('x_v1', 'pre_create_cluster', 7))

    @given(st.dictionaries(st.text(), DATA))
    def test_data_that_json_can_hold_is_kept_as_it_is(self, state):
        self.assertEqual(state, plain_mapping('x_v1', 'verb show', state))
        report = checked('x_v1', 'create_cluster', StatusReport(driver_state=state))
        self.assertEqual(state, report.driver_state)

    def test_an_answer_of_a_verb_is_a_mapping(self):
        for answer, told in ((None, 'it is None'), ({'x': object()}, 'the answer.x is of type')):
            with self.assertRaisesRegex(ClusterDriverDefect, f'from verb show: {told}'):
                plain_mapping('x_v1', 'verb show', answer)
