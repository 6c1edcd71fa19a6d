"""Tests of what CI leaves out once its time is up."""

import os
import subprocess
import sys
import unittest
from unittest import mock

from tests.time_limit import SHARES, runs_always, time_is_up
from tests.unit.test_layering import ROOT

MODULE = 'tests/functional/nova/test_conformance.py'


def ran_late():
    """Run two suites, of which the long one has none that always runs; return what was said."""
    suites = ['tests/unit/test_time_limit.py::Share', 'tests/functional/hostile/test_clocks.py']
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-p', 'no:cacheprovider', *suites],
        env={**os.environ, 'KILN_LONG_UNTIL': '1'},
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
    def test_it_is_up_after_the_moment_that_was_said_and_without_one_never(self):
        for until, up in (('1', True), ('99999999999', False)):
            with mock.patch.dict(os.environ, KILN_LONG_UNTIL=until):
                self.assertEqual(up, time_is_up())
        with mock.patch.dict(os.environ):
            os.environ.pop('KILN_LONG_UNTIL', None)
            self.assertFalse(time_is_up())


class Run(unittest.TestCase):
    def test_a_late_run_names_what_it_has_left_out(self):
        said = ran_late()
        self.assertIn('3 passed', said)
        self.assertIn('time of this run is up: 3 of tests/functional/hostile/test_clocks', said)
