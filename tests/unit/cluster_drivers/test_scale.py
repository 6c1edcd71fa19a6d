"""Scale managers: the order in which a driver lets nodes of a group be removed."""

import unittest

from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.clusters.exceptions import ClusterDriverError
from tests.unit.cluster_drivers.samples import cluster, context, group, node

NODES = (node(3), node(1), node(2))


class FixedOrder(DefaultScaleManager):
    """Returns the given order."""

    def __init__(self, answer):
        super().__init__(context(), cluster())
        self.answer = answer

    def order(self, nodegroup, nodes):
        return self.answer


class Removals(unittest.TestCase):
    def test_001_22_by_default_nodes_are_removed_in_the_order_of_the_group(self):
        scale = DefaultScaleManager(context(), cluster())
        for number in range(4):
            self.assertEqual(NODES[:number], scale.victims(group(), NODES, number))

    def test_001_22_a_driver_can_change_the_order_of_removal(self):
        self.assertEqual(NODES[:0:-1], FixedOrder(NODES[::-1]).victims(group(), NODES, 2))

    def test_a_node_that_the_driver_leaves_out_is_not_removed(self):
        self.assertEqual(NODES[1:2], FixedOrder(NODES[1:2]).victims(group(), NODES, 1))
        with self.assertRaisesRegex(ClusterDriverError, 'Cannot remove 2 of the nodes .*allows 1'):
            FixedOrder(NODES[1:2]).victims(group(), NODES, 2)

    def test_an_order_with_other_or_repeated_nodes_is_refused(self):
        for answer in ([node(4)], [node(1), node(1)], [*NODES, node(4)]):
            with self.assertRaisesRegex(ClusterDriverError, 'outside the choice'):
                FixedOrder(answer).victims(group(), NODES, 1)
