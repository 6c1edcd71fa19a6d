"""The table of where the time of CI went."""

import unittest

from tools.timetable import suite_of, table

NOTED = """\
main\t0\t0\tenvironments
main\t20\t15\tlint
cloud\t1\t0\tan OpenStack
test\t2.0\t0.5\ttests/functional/db/test_one.py::One::test_a
test\t3.0\t0.5\ttests/functional/db/test_two.py::Two::test_b
test\t9.0\t1.0\ttests/octavia/test_driver.py::test_c
main\t50\t70\tover
"""


class TableTest(unittest.TestCase):
    def setUp(self):
        self.rows = [line.split(maxsplit=3) for line in table(NOTED.splitlines(), 60)]

    def test_a_step_lasts_until_the_next_one_of_its_lane(self):
        self.assertIn(['20', '15', 'main:', 'environments'], self.rows)
        self.assertIn(['30', '55', 'main:', 'lint'], self.rows)

    def test_one_that_was_ended_in_the_middle_lasts_until_now(self):
        self.assertIn(['59', '0', 'cloud:', 'an OpenStack'], self.rows)

    def test_tests_are_added_up_by_suite_and_the_longest_is_first(self):
        self.assertEqual(
            [['9', '1', '1', 'tests/octavia'], ['5', '1', '2', 'tests/functional/db']],
            self.rows[-2:],
        )

    def test_a_suite_is_a_folder(self):
        self.assertEqual('tests/functional/docker', suite_of('tests/functional/docker/x.py::A::b'))
        self.assertEqual('tests/unit', suite_of('tests/unit/db/test_x.py::A::b'))
