"""Tests of what CI leaves out once its time is up."""

import os
import subprocess
import sys
import time
import unittest
from unittest import mock

from tests.time_limit import LAST_S, SHARES, is_left_out, runs_always
from tests.unit.test_layering import ROOT

MODULE = 'tests/functional/nova/test_conformance.py'


def ran_late():
    """Run two suites, of which the long one has none that always runs; return what was said."""
    suites = ['tests/unit/test_time_limit.py::Share', 'tests/functional/hostile/test_clocks.py']
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-p', 'no:cacheprovider', *suites],
        env={**os.environ, 'KILN_LONG_UNTIL': str(time.time() - 60)},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout


class Share(unittest.TestCase):
    def test_it_is_some_tests_of_a_long_suite_and_the_same_each_time(self):
        tests = [f'{MODULE}::NovaConformance::test_{number}' for number in range(320)]
        share = [test for test in tests if runs_always(test)]
        self.assertTrue(5 < len(share) < 60, share)
        self.assertEqual(share, [test for test in tests if runs_always(test)])

    def test_every_test_of_other_suites_is_in_it(self):
        self.assertTrue(runs_always('tests/unit/test_time_limit.py::Share::test_it'))

    def test_every_long_suite_exists(self):
        self.assertEqual([], [name for name in SHARES if not (ROOT / name).exists()])


class Time(unittest.TestCase):
    def left_out(self, late_s):
        """Return whether a long test and another one are left out, seconds after the time."""
        names = (
            'tests/functional/hostile/test_clocks.py::Some::test',
            'tests/unit/x.py::Some::test',
        )
        with mock.patch.dict(os.environ, KILN_LONG_UNTIL=str(time.time() - late_s)):
            return [is_left_out(name) for name in names]

    def test_long_tests_are_left_out_once_it_is_up_and_all_of_them_much_later(self):
        self.assertEqual([False, False], self.left_out(-60))
        self.assertEqual([True, False], self.left_out(60))
        self.assertEqual([True, True], self.left_out(LAST_S + 60))

    def test_without_a_time_nothing_is_left_out(self):
        with mock.patch.dict(os.environ):
            os.environ.pop('KILN_LONG_UNTIL', None)
            self.assertFalse(is_left_out('tests/functional/hostile/test_clocks.py::Some::test'))


class Run(unittest.TestCase):
    def test_a_late_run_names_what_it_has_left_out(self):
        said = ran_late()
        self.assertIn('3 passed', said)
        self.assertIn('time of this run is up: 3 of tests/functional/hostile/test_clocks', said)
