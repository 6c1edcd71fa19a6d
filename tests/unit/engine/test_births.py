"""Guarantees for cluster drivers: they get all nodes, and the oldest one is known."""

import unittest

from kiln.cluster_drivers.values import READY
from kiln.clusters.models import Cluster, Node
from kiln.clusters.spec import ClusterSpec, MachineSpec, Place
from kiln.engine.nodes.node_table import NodeTable
from kiln.engine.nodes.transaction import Transaction
from kiln.testing.clock import VirtualClock
from tests.unit.engine.site import PIN, Plain, Site, group


class Curious(Plain):
    """Remembers how many nodes it got."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def is_ready(self, context, cluster, node):
        self.seen.append({one.id for one in context.nodes})
        assert node in context.nodes
        return READY


class Shown(Site):
    def setUp(self):
        self.driver = Curious()
        super().setUp()

    def test_a_driver_gets_all_nodes_in_every_call(self):
        cluster = self.created(group(3))
        everyone = {node.id for node in self.nodes(cluster)}
        self.assertEqual([everyone] * 3, self.driver.seen)

    def test_nodes_have_the_zones_in_which_the_backend_put_their_machines(self):
        cluster = self.created(group(2))
        machines = self.machines()
        zones = {machine_id: one.availability_zone for machine_id, one in machines.items()}
        self.assertNotIn(None, zones.values())
        self.assertEqual(zones, {n.compute_id: n.found_zone for n in self.nodes(cluster)})

    def test_nodes_have_all_addresses_of_their_machines(self):
        cluster = self.created(group(2, machine=MachineSpec(networks=('front', 'back'))))
        machines = self.machines()
        for node in self.nodes(cluster):
            found = tuple(one.address for one in machines[node.compute_id].addresses)
            self.assertEqual((2, found), (len(found), node.addresses))
            self.assertIn(node.address, found)

    def test_nodes_created_together_have_distinct_ages(self):
        cluster = self.created(group(5))
        self.assertEqual(5, len({node.created_at for node in self.nodes(cluster)}))


class Births(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock(epoch=200.0)
        spec = ClusterSpec(name='web', groups=())
        cluster = Cluster(id='c', name='web', spec=spec, generation=1, pin=PIN)
        self.tx = Transaction(cluster, self.clock)

    def a_node(self, number, born):
        return Node(
            id=f'n-{number}', cluster_id='c', group='work', name=f'n{number}', place=Place(),
            backend='noop', created_at=born,
        )  # fmt: skip

    def test_a_new_node_is_the_youngest_even_after_the_clock_stepped_back(self):
        table = NodeTable(self.tx, [self.a_node(1, 100.0)])
        self.assertEqual(200.0, table.birth())
        self.clock.step(-150.0)
        self.tx.open()
        self.assertGreater(table.birth(), 100.0)
        table.add(self.a_node(2, table.birth()))
        self.assertGreater(table.birth(), table.get('n-2').node.created_at)

    def test_the_nodes_are_one_tuple_until_one_changes(self):
        table = NodeTable(self.tx, [self.a_node(1, 1.0), self.a_node(2, 2.0)])
        before = table.nodes()
        self.assertIs(before, table.nodes())
        table.change(table.get('n-1'), address='a')
        self.assertEqual(['a', None], [one.address for one in table.nodes()])
        table.forget(table.get('n-1'))
        self.assertEqual(['n-2'], [one.id for one in table.nodes()])
