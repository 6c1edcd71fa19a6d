"""So many builds of a cluster are asked for at once, and the others in their order."""

import unittest

from kiln.engine.nodes.build_gate import BuildGate


class GateTest(unittest.TestCase):
    def test_who_finds_no_room_is_named_when_there_is(self):
        gate = BuildGate(2)
        self.assertEqual([True, True, False, False], [gate.enter(one) for one in 'abcd'])
        self.assertEqual('c', gate.leave('a'))
        self.assertTrue(gate.enter('c'))
        self.assertEqual('d', gate.leave('b'))
        self.assertTrue(gate.enter('d'))
        self.assertIsNone(gate.leave('c'))

    def test_who_was_never_in_leaves_without_harm(self):
        gate = BuildGate(1)
        self.assertIsNone(gate.leave('a'))
        self.assertTrue(gate.enter('b'))
        self.assertFalse(gate.enter('c'))
