"""The limit on concurrent builds of a cluster; the others follow in order."""

import unittest

from kiln.engine.nodes.build import BuildGate


class GateTest(unittest.TestCase):
    def test_a_node_without_room_is_admitted_later(self):
        gate = BuildGate(2)
        self.assertEqual([True, True, False, False], [gate.enter(one) for one in 'abcd'])
        self.assertEqual('c', gate.leave('a'))
        self.assertTrue(gate.enter('c'))
        self.assertEqual('d', gate.leave('b'))
        self.assertTrue(gate.enter('d'))
        self.assertIsNone(gate.leave('c'))

    def test_releasing_a_node_that_was_not_admitted_does_nothing(self):
        gate = BuildGate(1)
        self.assertIsNone(gate.leave('a'))
        self.assertTrue(gate.enter('b'))
        self.assertFalse(gate.enter('c'))
