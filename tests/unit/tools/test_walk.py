"""The walk counts what a job does in files of kiln, and nothing else."""

import contextlib
import unittest

import kiln
import kiln.compute.facade
from kiln import clock
from tools.walk import Walk


class Counting(unittest.TestCase):
    def test_calls_files_and_moves_between_files_are_counted(self):
        walk = Walk()
        with walk.counting():
            clock.Deadline.after(1.0, clock.SYSTEM_CLOCK)
            sorted([3, 1, 2])
        clock.Deadline.after(1.0, clock.SYSTEM_CLOCK)
        self.assertEqual({clock.__file__}, set(walk.calls))
        self.assertEqual(1, walk.calls.total())
        self.assertEqual({}, dict(walk.moves))

    def test_a_call_from_one_file_to_another_is_a_move(self):
        walk = Walk()
        with contextlib.closing(kiln.open_compute('noop')) as compute, walk.counting():
            compute.check().result()
        facade = kiln.compute.facade.__file__
        self.assertTrue(any(before == facade for before, _ in walk.moves), walk)
        self.assertFalse(any(before == after for before, after in walk.moves))
