"""Threads of drivers: a slow cluster takes some of them, and each cluster has its turn."""

import threading
import unittest

from kiln.engine.nodes.driver_threads import DriverThreads, LimitedThreads


class Limited(unittest.TestCase):
    def setUp(self):
        self.shared, self.done = [], []
        self.threads = LimitedThreads(self.shared.append, most=2, turn_s=0.0)

    def add(self, *names):
        for name in names:
            self.threads.run(lambda name=name: self.done.append(name))

    def test_no_more_than_the_limit_are_begun_at_once(self):
        self.add(*'abcd')
        self.assertEqual(2, len(self.shared))

    def test_the_next_one_waits_behind_the_calls_of_other_clusters(self):
        self.add(*'abc')
        self.shared.append(lambda: self.done.append('other'))
        while self.shared:
            self.shared.pop(0)()
        self.assertEqual(['a', 'b', 'other', 'c'], self.done)

    def test_quick_calls_share_a_turn(self):
        self.threads = LimitedThreads(self.shared.append, most=1, turn_s=60.0)
        self.add(*'abc')
        self.shared.pop()()
        self.assertEqual((['a', 'b', 'c'], []), (self.done, self.shared))

    def test_after_the_last_one_there_is_room_again(self):
        self.add('a')
        self.shared.pop()()
        self.assertEqual([], self.shared)
        self.add(*'bcd')
        self.assertEqual(2, len(self.shared))


class Pool(unittest.TestCase):
    def test_closing_leaves_a_call_that_hangs_and_drops_those_that_have_not_begun(self):
        threads, gate, begun = DriverThreads(), threading.Event(), threading.Event()

        def hang():
            begun.set()
            gate.wait()

        threads.run(hang)
        begun.wait()
        threads.close(wait_s=0.01)
        gate.set()
        with self.assertRaises(RuntimeError):
            threads.run(hang)
