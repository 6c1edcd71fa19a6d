"""The claim check: what is claimed already, what can be, and why the rest is refused."""

import unittest

from kiln.compute_drivers.authoring.claiming import about_claim, is_claimed, key_in_use
from kiln.exceptions import BuildConflict, InvalidRequest, Outcome


class ClaimCheck(unittest.TestCase):
    def setUp(self):
        self.asked = about_claim('m-1', 'web-1')

    def check(self, has_owner, has_key):
        return is_claimed(self.asked, 'kiln', has_owner=has_owner, has_key=has_key)

    def test_a_machine_of_nobody_can_be_claimed(self):
        self.assertFalse(self.check(None, None))

    def test_a_machine_of_this_site_is_claimed_if_it_has_the_key(self):
        self.assertTrue(self.check('kiln', 'web-1'))
        self.assertFalse(self.check('kiln', None))

    def test_a_refusal_says_whose_the_machine_is_and_what_to_do(self):
        for has, said in (
            (('other', 'web-1'), "Cannot claim m-1: it belongs to site 'other'.* Leave it"),
            (('other', None), "Cannot claim m-1: it belongs to site 'other'.* Leave it"),
            (('kiln', 'db-1'), "Cannot claim m-1: .* build key 'db-1' .* Claim it with 'db-1'"),
        ):
            with self.subTest(has), self.assertRaisesRegex(InvalidRequest, said) as caught:
                self.check(*has)
            self.assert_final(caught.exception)

    def test_a_key_in_use_is_a_conflict_that_names_the_other_machine(self):
        error = key_in_use(self.asked, 'm-2')
        self.assertIsInstance(error, BuildConflict)
        self.assertIn("amphora m-2 of this site has build key 'web-1'", str(error))
        self.assert_final(error)

    def assert_final(self, error):
        self.assertEqual(
            ('m-1', 'web-1', False, Outcome.NOT_APPLIED),
            (error.amphora_id, error.build_key, error.retryable, error.outcome),
        )
