"""Ports of the real Neutron on nodes of the real Ironic."""

from kiln.exceptions import InvalidBuildRequest
from tests.functional.ironic.connected import PORTS, DriverCase


class Connected(DriverCase):
    def macs_of(self, amphora_id):
        """Return the MAC addresses of the ports of the node of an amphora."""
        ports = self.nodes.ask('GET', f'/nodes/{self.node_of(amphora_id)}/ports')['ports']
        return {one['address'] for one in ports}

    def test_the_addresses_of_an_amphora_are_on_the_ports_of_its_node(self):
        given = self.make_port()
        built = self.build(port_ids=[given], network_ids=['net1'], sec_groups=['default'])
        self.becomes(built)
        found = self.driver.get_amphora(amphora_id=built).addresses
        (made,) = self.ports_of(self.owner)
        self.assertEqual([given, made['id']], [one.port_id for one in found])
        for one in found:
            port = self.port(one.port_id)
            self.assertEqual(one.address, port['fixed_ips'][0]['ip_address'])
            self.assertEqual(one.mac, port['mac_address'])
        self.assertLessEqual({one.mac for one in found}, self.macs_of(built))
        self.driver.delete(built)
        self.gone()
        self.assertEqual([], self.ports_of(self.owner))
        self.assertEqual('', self.port(given)['device_id'])
        self.assertNotIn(self.port(given)['mac_address'], {one.mac for one in found})

    def test_a_build_with_more_ports_than_the_node_has_leaves_nothing(self):
        given = [self.make_port() for _ in range(PORTS + 1)]
        with self.assertRaisesRegex(InvalidBuildRequest, 'not enough free physical ports'):
            self.build(port_ids=given)
        self.assertEqual([], self.claims())
        self.assertEqual({''}, {self.port(one)['device_id'] for one in given})
        # No node has kept a port.
        built = self.build(port_ids=given[:PORTS])
        self.becomes(built)
        self.assertEqual(PORTS, len(self.driver.get_amphora(amphora_id=built).addresses))
