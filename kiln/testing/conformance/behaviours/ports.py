"""Behaviours of attaching and detaching ports and networks."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import (
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidRequest,
    PermissionDenied,
)
from kiln.models import Ability, Attachment
from kiln.testing.conformance.fixture import ConformanceFixture, needs


class Attaching(ConformanceFixture):
    """Base of behaviours that need ports or networks."""

    def port_id(self) -> str:
        """Return an unattached port."""
        if not self.port_ids:
            raise CannotBeShown('the fixture has no unattached ports (port_ids)')
        return self.port_ids[0]

    def network_id(self) -> str:
        """Return a network that can be attached."""
        if not self.network_ids:
            raise CannotBeShown('the fixture has no networks (network_ids)')
        return self.network_ids[0]

    def comes_free(self, port_id: str, amphora_id: str) -> None:
        """Wait until a port that might still be in use can be attached to an instance."""

        def look() -> str:
            try:
                return self.driver.attach_port(amphora_id, port_id).amphora_id
            except InstanceStateConflict as exc:
                return f'it is refused: {exc}'

        self.becomes(look, lambda user: user == amphora_id)


class Ports(Attaching):
    """Ports and networks."""

    @needs(Ability.ATTACH_PORT)
    def test_an_attachment_names_instance_and_port(self) -> None:
        amphora_id, port_id = self.build_active(), self.port_id()
        attachment = self.driver.attach_port(amphora_id, port_id)
        self.assertIsInstance(attachment, Attachment)
        self.assertEqual(attachment.amphora_id, amphora_id, 'amphora_id')
        self.assertEqual(attachment.port_id, port_id, 'port_id')

    @needs(Ability.ATTACH_PORT)
    def test_attaching_a_port_again_is_a_success(self) -> None:
        amphora_id, port_id = self.build_active(), self.port_id()
        self.driver.attach_port(amphora_id, port_id)
        self.assertEqual(self.driver.attach_port(amphora_id, port_id).port_id, port_id)

    @needs(Ability.ATTACH_PORT)
    def test_a_port_in_use_elsewhere_is_refused(self) -> None:
        user, thief, port_id = self.build_active(), self.build_active(), self.port_id()
        self.driver.attach_port(user, port_id)
        with self.assertRaises(InstanceStateConflict):
            self.driver.attach_port(thief, port_id)

    @needs(Ability.ATTACH_PORT)
    def test_attaching_a_port_to_an_unknown_instance_is_not_found(self) -> None:
        with self.assertRaises(InstanceNotFoundError):
            self.driver.attach_port(self.unknown_id(), self.port_id())

    @needs(Ability.ATTACH_PORT, Ability.DETACH_PORT)
    def test_a_detached_port_can_be_attached_elsewhere(self) -> None:
        first, second, port_id = self.build_active(), self.build_active(), self.port_id()
        self.driver.attach_port(first, port_id)
        self.driver.detach_port(first, port_id)
        self.comes_free(port_id, second)

    @needs(Ability.ATTACH_PORT)
    def test_the_port_of_a_deleted_instance_can_be_attached_elsewhere(self) -> None:
        first, second, port_id = self.build_active(), self.build_active(), self.port_id()
        self.driver.attach_port(first, port_id)
        self.driver.delete(first)
        self.comes_free(port_id, second)

    @needs(Ability.DETACH_PORT)
    def test_detaching_an_unattached_port_is_a_success(self) -> None:
        self.driver.detach_port(self.build_active(), self.port_id())

    @needs(Ability.ATTACH_PORT, Ability.DETACH_PORT)
    def test_detaching_a_port_again_is_a_success(self) -> None:
        amphora_id, port_id = self.build_active(), self.port_id()
        self.driver.attach_port(amphora_id, port_id)
        self.driver.detach_port(amphora_id, port_id)
        self.driver.detach_port(amphora_id, port_id)

    @needs(Ability.ATTACH_NETWORK)
    def test_an_attached_network_brings_a_port(self) -> None:
        amphora_id, network_id = self.build_active(), self.network_id()
        attachment = self.driver.attach_network(amphora_id, network_id)
        self.assertIsInstance(attachment, Attachment)
        self.assertTrue(attachment.port_id, 'port_id of the attachment')
        self.assertIn(attachment.network_id, (None, network_id))

    @needs(Ability.ATTACH_NETWORK)
    def test_an_attachment_has_a_subnet_for_each_of_its_addresses_or_none(self) -> None:
        attachment = self.driver.attach_network(self.build_active(), self.network_id())
        self.assertIn(len(attachment.subnet_ids), (0, len(attachment.addresses)))

    @needs(Ability.ATTACH_NETWORK)
    def test_a_network_can_be_attached_to_two_instances(self) -> None:
        network_id = self.network_id()
        ports = {
            self.driver.attach_network(self.build_active(), network_id).port_id for _ in range(2)
        }
        self.assertEqual(len(ports), 2, 'the number of ports')

    @needs(Ability.ATTACH_NETWORK, Ability.DETACH_NETWORK)
    def test_detaching_a_network_again_is_a_success(self) -> None:
        amphora_id, network_id = self.build_active(), self.network_id()
        self.driver.attach_network(amphora_id, network_id)
        self.driver.detach_network(amphora_id, network_id)
        self.driver.detach_network(amphora_id, network_id)

    @needs(Ability.DETACH_NETWORK)
    def test_detaching_an_unattached_network_is_a_success(self) -> None:
        self.driver.detach_network(self.build_active(), self.network_id())

    @needs(Ability.ATTACH_PORT, Ability.DETACH_PORT)
    def test_detaching_the_port_of_another_instance_leaves_it(self) -> None:
        user, other, port_id = self.build_active(), self.build_active(), self.port_id()
        self.driver.attach_port(user, port_id)
        self.driver.detach_port(other, port_id)
        self.pass_time(0.1)
        with self.assertRaises(InstanceStateConflict):
            self.driver.attach_port(other, port_id)

    @needs(Ability.ATTACH_NETWORK, Ability.DETACH_NETWORK)
    def test_detaching_a_network_leaves_that_of_another_instance(self) -> None:
        user, other, network_id = self.build_active(), self.build_active(), self.network_id()
        self.driver.attach_network(user, network_id)
        before = self.driver.get_amphora(amphora_id=user).addresses
        self.driver.detach_network(other, network_id)
        self.pass_time(0.1)
        self.assertEqual(self.driver.get_amphora(amphora_id=user).addresses, before)

    @needs(Ability.ATTACH_NETWORK, Ability.DETACH_NETWORK)
    def test_a_network_is_attached_at_the_address_that_was_requested_or_refused(self) -> None:
        amphora_id, network_id = self.build_active(), self.network_id()
        made = self.driver.attach_network(amphora_id, network_id)
        self.driver.detach_network(amphora_id, network_id)
        if not made.addresses:
            return
        address = made.addresses[0]

        def look() -> tuple[str, ...]:
            try:
                return self.driver.attach_network(
                    amphora_id, network_id, address=address
                ).addresses
            except InstanceStateConflict:
                # The address can still be in use by the port that is being detached.
                return ()
            except (InvalidRequest, PermissionDenied):
                # A network, or its owner, can reserve the choice of addresses.
                return (address,)

        self.becomes(look, lambda has: address in has)
