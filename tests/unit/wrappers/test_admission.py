"""The queue is bounded and fair, and no kind of traffic takes the last lane."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.calls import Traffic
from kiln.wrappers.admission import Admission
from kiln.wrappers.operation import Priority


def admission(lanes=4, max_waiting=100, wanted=lambda item: True):
    return Admission(lanes=lanes, max_waiting=max_waiting, wanted=wanted)


class AdmissionTest(unittest.TestCase):
    def test_priorities_first_and_within_them_the_first_come(self):
        queue = admission(lanes=8)
        for item, priority in (
            ('a', Priority.NORMAL),
            ('b', Priority.NORMAL),
            ('c', Priority.HIGH),
        ):
            queue.put(Traffic.READ, priority, item)
        self.assertEqual(['c', 'a', 'b'], [queue.take(0)[1] for _ in range(3)])
        self.assertIsNone(queue.take(0))

    def test_it_is_full_at_its_bound_and_not_before(self):
        queue = admission(max_waiting=2)
        queue.put(Traffic.READ, Priority.LOW, 'a')
        self.assertFalse(queue.full)
        queue.put(Traffic.READ, Priority.LOW, 'b')
        self.assertTrue(queue.full)

    def test_builds_that_hang_leave_lanes_for_looks_and_deletes(self):
        queue = admission(lanes=8)
        for i in range(20):
            queue.put(Traffic.BUILD, Priority.HIGH, i)
        taken = 0
        while queue.take(0):
            taken += 1
        self.assertEqual(4, taken)
        queue.put(Traffic.READ, Priority.LOW, 'look')
        queue.put(Traffic.CHANGE, Priority.LOW, 'delete')
        self.assertEqual({'look', 'delete'}, {queue.take(0)[1], queue.take(0)[1]})

    def test_a_held_kind_waits_until_its_moment_and_others_go(self):
        queue = admission()
        queue.put(Traffic.BUILD, Priority.HIGH, 'build')
        queue.put(Traffic.READ, Priority.LOW, 'look')
        queue.hold(Traffic.BUILD, 5.0)
        queue.hold(Traffic.BUILD, 3.0)
        self.assertEqual('look', queue.take(4.0)[1])
        self.assertFalse(queue.ready(4.0))
        self.assertTrue(queue.ready(5.0))
        self.assertEqual('build', queue.take(5.0)[1])

    def test_what_is_wanted_no_more_is_passed_over(self):
        unwanted = {'a'}
        queue = admission(wanted=lambda item: item not in unwanted)
        queue.put(Traffic.READ, Priority.NORMAL, 'a')
        queue.put(Traffic.READ, Priority.NORMAL, 'b')
        queue.withdraw()
        self.assertEqual(1, queue.waiting)
        self.assertEqual('b', queue.take(0)[1])

    @given(
        lanes=st.integers(3, 12),
        steps=st.lists(st.tuples(st.sampled_from(list(Traffic)), st.booleans()), max_size=120),
    )
    def test_lanes_never_leak_and_a_kind_that_asks_is_never_shut_out(self, lanes, steps):
        queue, running = admission(lanes=lanes), []
        for traffic, finish in steps:
            queue.put(traffic, Priority.NORMAL, traffic)
            while (taken := queue.take(0)) is not None:
                running.append(taken[0])
            self.assertEqual(len(running), queue.running)
            self.assertLessEqual(len(running), lanes)
            # The kind that just asked has a lane, or had one already.
            self.assertIn(traffic, running)
            if finish:
                queue.give_back(running.pop(0))
        for traffic in running:
            queue.give_back(traffic)
        self.assertEqual(0, queue.running)
