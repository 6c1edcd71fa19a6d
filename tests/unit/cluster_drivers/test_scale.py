"""What a driver may say about who goes when a group shrinks, and what it may not."""

import unittest

from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.clusters.exceptions import ClusterDriverError
from tests.unit.cluster_drivers.samples import cluster, context, group, node

NODES = (node(3), node(1), node(2))


class Saying(DefaultScaleManager):
    """Answers what it is told to."""

    def __init__(self, answer):
        super().__init__(context(), cluster())
        self.answer = answer

    def order(self, nodegroup, nodes):
        return self.answer


class Victims(unittest.TestCase):
    def test_001_22_by_default_those_go_that_the_groups_rules_name_first(self):
        scale = DefaultScaleManager(context(), cluster())
        for number in range(4):
            self.assertEqual(NODES[:number], scale.victims(group(), NODES, number))

    def test_001_22_a_driver_may_change_the_order(self):
        self.assertEqual(NODES[:0:-1], Saying(NODES[::-1]).victims(group(), NODES, 2))

    def test_a_node_that_may_not_go_is_left_out(self):
        self.assertEqual(NODES[1:2], Saying(NODES[1:2]).victims(group(), NODES, 1))
        with self.assertRaisesRegex(ClusterDriverError, 'Cannot remove 2 nodes .*allows 1'):
            Saying(NODES[1:2]).victims(group(), NODES, 2)

    def test_a_node_that_was_not_asked_about_is_not_removed(self):
        for answer in ([node(4)], [node(1), node(1)], [*NODES, node(4)]):
            with self.assertRaisesRegex(ClusterDriverError, 'outside the choice'):
                Saying(answer).victims(group(), NODES, 1)
