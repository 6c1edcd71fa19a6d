"""Amphorae from stacks and their servers."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.heat.translate import (
    LOST,
    Facts,
    amphora_of,
    as_built,
    stack_of,
    state_of,
    words_of,
)
from kiln.models import State
from tests.unit.compute_drivers.heat.samples import ID, SERVER, row

FACTS = Facts(name='web-1', availability_zone='az2', metadata={'a': 'b', 'kiln:flavor': 'f-1'})
#: What Heat could show as a parameter.
SHOWN = st.none() | st.text() | st.lists(st.integers()) | st.integers()
CREATE, WENT = 'Resource CREATE failed: ', 'Went to status ERROR due to '


def server(**more):
    return {**SERVER, **more}


class States(unittest.TestCase):
    def test_until_a_stack_is_complete_heat_decides(self):
        for state, expected in {
            'CREATE_INIT': State.BUILDING,
            'CREATE_IN_PROGRESS': State.BUILDING,
            'CREATE_FAILED': State.ERROR,
            'DELETE_IN_PROGRESS': State.DELETING,
            'DELETE_FAILED': State.ERROR,
            'DELETE_COMPLETE': State.DELETING,
        }.items():
            with self.subTest(state):
                self.assertIs(expected, state_of(row(state), SERVER))
                self.assertIs(expected, state_of(row(state), None))

    def test_from_then_on_nova_decides_whatever_else_is_done_to_the_stack(self):
        for state in ('CREATE_COMPLETE', 'CHECK_FAILED', 'UPDATE_IN_PROGRESS', 'SUSPEND_COMPLETE'):
            with self.subTest(state):
                self.assertIs(State.ACTIVE, state_of(row(state), SERVER))
                stopped = server(**{'OS-EXT-STS:vm_state': 'stopped'})
                self.assertIs(State.STOPPED, state_of(row(state), stopped))

    def test_a_stack_whose_server_is_gone_is_in_error_and_says_so(self):
        amphora = amphora_of(row('CREATE_COMPLETE'), None, FACTS)
        self.assertEqual((State.ERROR, LOST, None), (
            amphora.state, amphora.fault, amphora.fault_code))  # fmt: skip
        self.assertTrue(amphora.past_building)


class Amphorae(unittest.TestCase):
    def test_an_amphora_has_the_id_of_its_stack_and_the_addresses_of_its_server(self):
        amphora = amphora_of(row('CREATE_COMPLETE'), SERVER)
        self.assertEqual(
            (ID, 'web-1', 'k-1', 'east', '10.64.2.22', 'f-1', 'az1', {'a': 'b'}, True),
            (
                amphora.id, amphora.name, amphora.build_key, amphora.owner, amphora.address,
                amphora.flavor, amphora.availability_zone, dict(amphora.metadata), amphora.served,
            ),
        )  # fmt: skip

    def test_without_a_server_it_is_described_as_its_build_named_it(self):
        amphora = amphora_of(row('CREATE_IN_PROGRESS'), None, FACTS)
        self.assertEqual(
            ('web-1', 'f-1', 'az2', {'a': 'b'}, False),
            (
                amphora.name, amphora.flavor, amphora.availability_zone, dict(amphora.metadata),
                amphora.served,
            ),
        )  # fmt: skip

    def test_the_time_of_its_creation_is_always_that_of_the_stack(self):
        times = {
            amphora_of(row(state), one, FACTS).created_at
            for state, one in (('CREATE_IN_PROGRESS', None), ('CREATE_COMPLETE', SERVER))
        }
        self.assertEqual(1, len(times))

    def test_a_failed_build_never_ran(self):
        amphora = amphora_of(row('CREATE_FAILED', CREATE + 'x'), None, FACTS)
        self.assertFalse(amphora.past_building)

    def test_its_answers_hold_no_user_data(self):
        self.assertNotIn('c2VjcmV0', repr(amphora_of(row('CREATE_COMPLETE'), SERVER).raw))

    def test_a_repeated_build_is_compared_with_the_request_and_not_with_nova(self):
        found = as_built(row('CREATE_COMPLETE'), FACTS)
        self.assertEqual((ID, 'f-1', None), (found.id, found.flavor, found.image_id))

    def test_a_server_names_its_stack_by_a_tag(self):
        self.assertEqual(ID, stack_of(SERVER))
        self.assertEqual('', stack_of(server(tags=['kiln-heat:east'])))

    @given(st.dictionaries(st.sampled_from(['name', 'metadata', 'availability_zone']), SHOWN))
    def test_parameters_of_any_form_are_read(self, shown):
        self.assertIsInstance(amphora_of(row('CREATE_FAILED'), None, Facts.read(shown)).name, str)


class Faults(unittest.TestCase):
    def says(self, reason, words, code):
        amphora = amphora_of(row('CREATE_FAILED', reason), None, FACTS)
        self.assertEqual((words, code), (amphora.fault, amphora.fault_code))

    def test_no_room_is_told_in_the_words_of_nova(self):
        said = 'No valid host was found. There are not enough hosts available.'
        self.says(
            f'{CREATE}ResourceInError: resources.server: {WENT}"Message: {said}, Code: 500"',
            said, 'insufficient_capacity',
        )  # fmt: skip

    def test_a_used_up_quota_is_told_in_the_words_of_nova(self):
        said = 'Quota exceeded for instances: Requested 1, but already used 2 of 2 instances'
        request_id = '(Request-ID: req-49b90d2a-2a0d-4a8e-92b3-1d7b9a2a1f60)'
        self.says(
            f'{CREATE}Forbidden: resources.server: {said} (HTTP 403) {request_id}',
            said, 'quota_exceeded',
        )  # fmt: skip

    def test_an_image_that_does_not_fit_is_told_in_the_words_of_nova(self):
        said = "Flavor's disk is too small for requested image."
        self.says(f'{CREATE}BadRequest: resources.server: {said} (HTTP 400)', said, None)

    def test_a_stack_that_took_too_long_says_so(self):
        self.says('Create timed out', 'Create timed out', None)

    def test_a_stack_without_a_reason_has_a_fault_nevertheless(self):
        self.says('', 'no reason given', None)

    def test_what_holds_a_stack_that_is_to_go_is_told(self):
        reason = (
            'Resource DELETE failed: Conflict: resources.server: Instance is locked (HTTP 409)'
        )
        amphora = amphora_of(row('DELETE_FAILED', reason), None, FACTS)
        self.assertEqual('Heat could not delete it: Instance is locked', amphora.fault)

    def test_user_data_that_nova_quotes_is_not_told(self):
        reason = (
            f'{CREATE}BadRequest: resources.server: Invalid input for field/attribute '
            f"user_data. Value: c2VjcmV0. 'c2VjcmV0' is too long (HTTP 400)"
        )
        self.assertNotIn('c2VjcmV0', words_of(reason))
        amphora = amphora_of(row('CREATE_FAILED', reason), None, FACTS)
        self.assertNotIn('c2VjcmV0', repr((amphora, amphora.raw)))

    @given(st.text())
    def test_any_reason_gives_one_line_of_words(self, reason):
        words = words_of(reason)
        self.assertTrue(words)
        self.assertNotIn('\n', words)
