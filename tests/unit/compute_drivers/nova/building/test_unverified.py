"""Servers with an unverified state, which must be requested by id."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.nova.building.unverified import Unproven


class Asking(unittest.TestCase):
    def setUp(self):
        self.unproven = Unproven()

    def test_an_unverified_server_is_requested_even_if_it_is_reported(self):
        self.unproven.add('a')
        self.unproven.told(['a'], '1')
        self.unproven.arrived('2')
        self.assertEqual(['a'], self.unproven.ids())

    def test_a_verified_server_is_requested_until_its_answer_has_arrived(self):
        self.unproven.add('a')
        self.unproven.judged('a')
        self.unproven.arrived('9')
        self.assertEqual(['a'], self.unproven.ids())
        self.unproven.told(['a', 'b'], '3')
        self.unproven.arrived('3')
        self.assertEqual(['a'], self.unproven.ids())
        self.unproven.arrived('4')
        self.assertEqual([], self.unproven.ids())

    def test_a_verified_server_kept_elsewhere_is_not_requested(self):
        self.unproven.add('a')
        self.unproven.kept(['a', 'b'])
        self.assertEqual(['a'], self.unproven.ids())
        self.unproven.judged('a')
        self.unproven.kept(['a'])
        self.assertEqual([], self.unproven.ids())

    def test_a_server_in_doubt_again_is_requested_again(self):
        self.unproven.add('a')
        self.unproven.judged('a')
        self.unproven.told(['a'], '1')
        self.unproven.add('a')
        self.unproven.arrived('2')
        self.assertEqual(['a'], self.unproven.ids())

    def test_a_deleted_server_is_not_requested(self):
        self.unproven.add('a')
        self.unproven.forget('a')
        self.unproven.judged('a')
        self.assertEqual([], self.unproven.ids())

    @given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans())))
    def test_a_server_is_requested_until_its_state_has_arrived_despite_lost_answers(self, answers):
        unproven = Unproven()
        unproven.add('a')
        unproven.judged('a')
        known, cursor, second = False, 10, 10
        for is_lost, is_told, is_same_second in answers:
            unproven.arrived(str(cursor))
            self.assertTrue(known or unproven.ids())
            second += not is_same_second
            told = unproven.ids() if is_told else []
            unproven.told(told, str(second))
            if not is_lost:
                known, cursor = known or bool(told), second
