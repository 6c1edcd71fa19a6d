"""Users that hooks run as: what is refused, and why."""

import os
import pwd
import unittest

from kiln import conf as kiln_conf
from kiln.clusters.exceptions import InvalidHooks
from kiln.hooks.loading import load_hooks
from kiln.programs.accounts import (
    NEEDED,
    NEEDED_TO_END_ALL,
    AccountError,
    account_of,
    unable_because,
)

NOBODY = 'no-such-user'
ALL = sum(1 << number for number in NEEDED.values())


class AccountTest(unittest.TestCase):
    def test_a_user_who_does_not_exist_is_refused(self):
        with self.assertRaisesRegex(AccountError, f"^'{NOBODY}' is not a user of this host"):
            account_of(NOBODY, what='hooks')

    def test_the_user_of_kiln_needs_no_change(self):
        self.assertIsNone(account_of(pwd.getpwuid(os.geteuid()).pw_name, what='hooks'))

    def test_only_root_can_run_hooks_as_another_user(self):
        self.assertEqual('', unable_because(0, ALL))
        # A capability would be inherited.
        self.assertRegex(unable_because(1000, ALL), 'does not run as root; run it as root, or')

    def test_more_is_needed_to_end_all_that_a_program_has_started(self):
        self.assertEqual('', unable_because(0, ALL | 1 << 19, NEEDED_TO_END_ALL))
        self.assertEqual(
            'it lacks CAP_SYS_PTRACE; add them to its service',
            unable_because(0, ALL, NEEDED_TO_END_ALL),
        )

    def test_root_without_capabilities_is_refused_by_their_names(self):
        self.assertEqual(
            'it lacks CAP_KILL, CAP_SETUID; add them to its service',
            unable_because(0, ALL & ~(1 << NEEDED['CAP_KILL'] | 1 << NEEDED['CAP_SETUID'])),
        )


class LoadingTest(unittest.TestCase):
    def test_no_hook_is_loaded_for_a_user_who_cannot_run_it(self):
        with self.assertRaises(InvalidHooks) as caught:
            load_hooks(user=NOBODY)
        (problem,) = caught.exception.problems
        self.assertTrue(str(problem).startswith(f"[hooks] user: '{NOBODY}' is not a user"))

    def test_without_the_option_hooks_run_as_kiln(self):
        self.assertIsNone(kiln_conf.load([], [], environment={}).hooks.user)
