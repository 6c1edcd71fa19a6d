"""Forced switches between two threads: at each line, and never a deadlock."""

import threading
import unittest

from kiln.testing.conformance.interleaving import meetings, packages_of
from kiln.testing.minimal import MinimalDriver
from tests.kit.zoo.builders import HasNoLock


class Counter(MinimalDriver):
    """Adds one in several steps, with or without a lock."""

    def __init__(self):
        super().__init__()
        self.count = 0
        self.lock = threading.Lock()

    def add(self):
        seen = self.count
        self.count = seen + 1
        return self.count

    def add_alone(self):
        with self.lock:
            return self.add()

    def fail(self):
        raise KeyError('kit')


class Meetings(unittest.TestCase):
    def setUp(self):
        self.driver = Counter()

    def met(self, first, second):
        return list(meetings(lambda: (first, second), self.driver))

    def test_the_second_call_runs_while_the_first_is_stopped(self):
        met = self.met(self.driver.add, self.driver.add)
        self.assertEqual(3, len({one.place for one in met}))
        self.assertIn(True, [one.first.result == one.second.result for one in met])

    def test_a_call_that_waits_for_the_first_is_waited_for(self):
        met = self.met(self.driver.add_alone, self.driver.add_alone)
        self.assertGreaterEqual(len(met), 5)
        self.assertEqual([], [one for one in met if one.first.result == one.second.result])
        # One call more was made to count the lines.
        self.assertEqual(2 * len(met) + 1, self.driver.count)

    def test_an_error_is_the_end_of_a_call(self):
        for one in self.met(self.driver.fail, self.driver.add):
            self.assertIsInstance(one.first.error, KeyError)
            self.assertIsNone(one.second.error)

    def test_a_call_without_code_of_the_driver_meets_nothing(self):
        self.assertEqual([], self.met(int, int))

    def test_the_lines_are_spread_over_a_long_call(self):
        def long():
            for _ in range(50):
                self.driver.add()

        places = [one.place for one in self.met(long, self.driver.add)]
        self.assertEqual(12, len(places))

    def test_the_packages_of_a_driver_are_those_of_its_classes_but_not_of_the_contract(self):
        self.assertEqual(('kiln.testing',), packages_of(MinimalDriver()))
        self.assertEqual(('tests.kit.zoo', 'kiln.testing'), packages_of(HasNoLock()))
