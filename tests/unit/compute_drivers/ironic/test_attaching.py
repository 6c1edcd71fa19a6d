"""Ports and networks that are attached to a running node, and detached."""

from kiln.exceptions import (
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidRequest,
    QuotaExceeded,
    ResourceNotFoundError,
    ServiceUnavailable,
)
from tests.unit.compute_drivers.ironic.played import fault as ironic_fault
from tests.unit.compute_drivers.ironic.played_neutron import fault
from tests.unit.compute_drivers.ironic.with_ports import ATTACH, Case


class Attaching(Case):
    def test_a_port_is_attached_once_and_detached(self):
        built, given = self.active(network_ids=['net1']), self.neutron.port()
        first = self.driver.attach_port(built, given)
        self.assertEqual((('10.0.0.3',), ('sub-1',)), (first.addresses, first.subnet_ids))
        self.assertEqual(first, self.driver.attach_port(built, given))
        self.assertEqual(2, len(self.ironic.sent(ATTACH)))
        self.assertEqual(built, self.neutron.ports[given]['device_id'])
        found = self.driver.get_amphora(amphora_id=built).addresses
        self.assertEqual(['10.0.0.2', '10.0.0.3'], [one.address for one in found])
        for _ in range(2):
            self.driver.detach_port(built, given)
        self.assertEqual('', self.neutron.ports[given]['device_id'])
        self.assertEqual(1, len(self.driver.get_amphora(amphora_id=built).addresses))

    def test_a_network_is_attached_by_a_new_port_that_goes_with_it(self):
        built = self.active()
        made = self.driver.attach_network(built, self.neutron.net_id, address='10.0.0.9')
        self.assertEqual([made.port_id], self.ironic.vifs)
        self.driver.detach_network(built, 'another')
        self.assertEqual([made.port_id], self.ironic.vifs)
        self.driver.detach_network(built, self.neutron.net_id)
        self.assertEqual(({}, []), (self.neutron.ports, self.ironic.vifs))

    def test_what_cannot_be_attached_is_given_back(self):
        self.ironic.room = 0
        built, given = self.active(), self.neutron.port()
        said = 'not enough free physical ports'
        with self.assertRaisesRegex(InvalidRequest, said):
            self.driver.attach_port(built, given)
        with self.assertRaisesRegex(InvalidRequest, said):
            self.driver.attach_network(built, self.neutron.net_id)
        self.assertEqual([given], list(self.neutron.ports))
        self.assertEqual('', self.neutron.ports[given]['device_id'])

    def test_a_network_that_cannot_be_attached_leaves_all_other_ports(self):
        built = self.active(network_ids=['net1'], port_ids=[self.neutron.port()])
        before = {port_id: dict(port) for port_id, port in self.neutron.ports.items()}
        self.neutron.refusals = [('POST /v2.0/ports', fault(409, 'Quota exceeded: port'))]
        with self.assertRaises(QuotaExceeded):
            self.driver.attach_network(built, self.neutron.net_id)
        self.assertEqual((before, 2), (self.neutron.ports, len(self.ironic.vifs)))

    def test_a_port_that_cannot_be_written_on_the_claim_is_detached_again(self):
        built, given = self.active(network_ids=['net1']), self.neutron.port()
        for status, kind in ((503, ServiceUnavailable), (404, InstanceNotFoundError)):
            refusal = ironic_fault(status, 'Allocation could not be found.')
            self.ironic.refusals = [('PATCH /v1/allocations/.*', refusal)]
            with self.assertRaises(kind):
                self.driver.attach_port(built, given)
            self.assertEqual(
                (1, ''), (len(self.ironic.vifs), self.neutron.ports[given]['device_id'])
            )

    def test_of_two_requests_that_detach_a_port_both_succeed(self):
        built, given = self.active(), self.neutron.port()
        self.driver.attach_port(built, given)
        nics = self.ironic.claims[built]['extra']['kiln']['nics']
        self.neutron.meanwhile = [nics.clear]
        self.ironic.refusals = [('PATCH /v1/allocations/.*', ironic_fault(400, 'no such member'))]
        self.driver.detach_port(built, given)
        self.assertEqual('', self.neutron.ports[given]['device_id'])

    def test_a_port_in_use_elsewhere_is_a_conflict_about_the_port(self):
        built, taken = self.active(), self.neutron.port(device_id='other')
        with self.assertRaisesRegex(InstanceStateConflict, 'in use by other') as caught:
            self.driver.attach_port(built, taken)
        self.assertEqual(
            (built, taken), (caught.exception.amphora_id, caught.exception.resource_id)
        )

    def test_a_state_that_allows_no_port_is_a_conflict_about_the_amphora(self):
        built, given = self.build(), self.neutron.port()
        for change, said, retryable in (
            ({}, 'it is building', True),
            ({'provision_state': 'active', 'network_interface': 'noop'}, 'is noop', False),
        ):
            self.ironic.nodes[0] |= change
            with self.assertRaisesRegex(InstanceStateConflict, said) as caught:
                self.driver.attach_port(built, given)
            self.assertEqual(
                (None, retryable), (caught.exception.resource_id, caught.exception.retryable)
            )

    def test_a_port_is_attached_to_an_amphora_whose_claim_is_older(self):
        built, given = self.active(), self.neutron.port()
        del self.ironic.claims[built]['extra']['kiln']['nics']
        self.driver.attach_port(built, given)
        (found,) = self.driver.get_amphora(amphora_id=built).addresses
        self.assertEqual(given, found.port_id)

    def test_a_port_that_belongs_to_something_else_by_now_is_left_to_it(self):
        given = self.neutron.port()
        built = self.active(port_ids=[given], network_ids=['net1'])
        for port in self.neutron.ports.values():
            port['device_id'] = 'theirs'
        for port_id in list(self.neutron.ports):
            self.driver.detach_port(built, port_id)
        self.assertEqual([], self.ironic.vifs)
        self.assertEqual(
            ['theirs', 'theirs'], [one['device_id'] for one in self.neutron.ports.values()]
        )

    def test_a_port_that_was_deleted_meanwhile_is_detached(self):
        built = self.active(network_ids=['net1'])
        (made,) = self.ironic.vifs
        del self.neutron.ports[made]
        self.driver.detach_port(built, made)
        self.assertEqual([], self.ironic.vifs)

    def test_an_unknown_port_or_network_is_not_found(self):
        built, unknown = self.active(), '00000000-0000-4000-8000-000000000000'
        with self.assertRaises(ResourceNotFoundError) as caught:
            self.driver.attach_port(built, unknown)
        self.assertEqual(unknown, caught.exception.resource_id)
