"""What the row of a stack means for a cluster, and what is kept between calls."""

import dataclasses
import json
import unittest

from kiln.cluster_drivers.heat.state import (
    CHANGE_TRIES,
    DELETE_TRIES,
    Meaning,
    StackState,
    meaning,
)
from kiln.openstack.heat.rows import StackRow


def row(state, mark='m1'):
    action, _, status = state.partition('_')
    return StackRow(id='s1', name='n', action=action, status=status, tags=(f'kiln:wanted={mark}',))


class Kept(unittest.TestCase):
    def test_a_state_is_plain_data_and_the_same_after_it(self):
        state = StackState(id='s1', mark='m1', tries=2, rest=4, nodes={'last': {'work': 3}})
        self.assertEqual(state, StackState.read(json.loads(json.dumps(state.write()))))

    def test_data_of_another_version_or_none_is_a_beginning(self):
        self.assertEqual(StackState(), StackState.read({'unknown': 1}))
        self.assertEqual({}, StackState().write())

    def test_each_repeat_lets_twice_the_polls_pass(self):
        state, rests = StackState(), []
        for _ in range(4):
            state = state.repeated()
            rests.append(state.rest)
        self.assertEqual([1, 2, 4, 8], rests)


class Meanings(unittest.TestCase):
    def check(self, expected, found, **state):
        self.assertIs(expected, meaning(found, StackState(mark='m1', **state)))

    def test_a_stack_that_heat_works_on_is_working(self):
        for state in ('CREATE_IN_PROGRESS', 'UPDATE_IN_PROGRESS', 'CHECK_IN_PROGRESS'):
            self.check(Meaning.WORKING, row(state))

    def test_a_complete_stack_with_the_last_mark_is_done(self):
        for state in ('CREATE_COMPLETE', 'UPDATE_COMPLETE', 'CHECK_COMPLETE', 'RESUME_COMPLETE'):
            self.check(Meaning.DONE, row(state), settled=True)

    def test_a_stack_that_failed_is_suspended_or_was_rolled_back_has_failed(self):
        for state in ('CREATE_FAILED', 'UPDATE_FAILED', 'SUSPEND_COMPLETE', 'ROLLBACK_COMPLETE'):
            self.check(Meaning.FAILED, row(state))

    def test_a_request_that_heat_accepted_and_dropped_is_repeated_a_few_times(self):
        self.check(Meaning.REPEAT, row('UPDATE_COMPLETE', 'm0'))
        self.check(Meaning.REST, row('UPDATE_COMPLETE', 'm0'), tries=1, rest=1)
        self.check(Meaning.FAILED, row('UPDATE_COMPLETE', 'm0'), tries=CHANGE_TRIES)

    def test_a_settled_stack_that_somebody_changed_is_not_changed_back(self):
        self.check(Meaning.ALIEN, row('UPDATE_COMPLETE', 'other'), settled=True)

    def test_a_settled_stack_that_was_changed_since_is_somebodys_even_with_the_same_mark(self):
        now = dataclasses.replace(row('UPDATE_COMPLETE'), created_at='1', updated_at='2')
        restored = dataclasses.replace(now, action='RESTORE')
        for found in (now, restored):
            self.check(Meaning.ALIEN, found, settled=True, changed_at='1')
            self.check(Meaning.DONE, found, settled=True, changed_at='2')
            self.check(Meaning.DONE, found, changed_at='1')
            # Kept by a kiln that did not know it.
            self.check(Meaning.DONE, found, settled=True)
        resumed = dataclasses.replace(now, action='RESUME')
        self.check(Meaning.DONE, resumed, settled=True, changed_at='1')
        failed = dataclasses.replace(now, status='FAILED')
        self.check(Meaning.FAILED, failed, settled=True, changed_at='1')

    def test_no_stack_is_absent_and_so_is_a_deleted_one(self):
        self.check(Meaning.ABSENT, None)
        self.check(Meaning.ABSENT, row('DELETE_COMPLETE'))
        self.check(Meaning.ABSENT, None, leaving=True)

    def test_a_deletion_goes_on_until_nothing_is_left(self):
        self.check(Meaning.WORKING, row('DELETE_IN_PROGRESS'), leaving=True)
        # Heat has not taken it out of its list yet.
        self.check(Meaning.WORKING, row('DELETE_COMPLETE'), leaving=True)

    def test_a_deletion_that_failed_is_repeated_with_rests_and_then_has_failed(self):
        self.check(Meaning.REPEAT, row('DELETE_FAILED'), leaving=True)
        self.check(Meaning.REST, row('DELETE_FAILED'), leaving=True, tries=2, rest=1)
        self.check(Meaning.FAILED, row('DELETE_FAILED'), leaving=True, tries=DELETE_TRIES)

    def test_a_deletion_that_heat_dropped_is_repeated(self):
        self.check(Meaning.REPEAT, row('UPDATE_IN_PROGRESS'), leaving=True)

    def test_a_stack_that_somebody_deletes_is_working_and_then_gone(self):
        self.check(Meaning.WORKING, row('DELETE_IN_PROGRESS'))
        self.check(Meaning.FAILED, row('DELETE_FAILED'))
