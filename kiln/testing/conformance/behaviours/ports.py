"""Behaviours of attaching and detaching ports and networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidRequest,
    PermissionDenied,
    ResourceNotFoundError,
)
from kiln.models import Ability, Address, Attachment, State
from kiln.testing.conformance.fixture import ConformanceFixture, needs
from kiln.testing.conformance.wording import in_words, shown


class Attaching(ConformanceFixture):
    """Base of behaviours that need ports or networks."""

    def port_id(self) -> str:
        """Return an unattached port."""
        return self.ports_of_bench()[0]

    def ports_of_bench(self) -> list[str]:
        """Return at least one unattached port, and at most two."""
        if not self.port_ids:
            raise CannotBeShown('the fixture has no unattached ports (port_ids)')
        self._takes_ports = True
        return list(dict.fromkeys(self.port_ids))[:2]

    def two_ports(self) -> list[str]:
        """Return two unattached ports."""
        ports = self.ports_of_bench()
        if len(ports) < 2:
            raise CannotBeShown('the fixture has no two unattached ports (port_ids)')
        return ports

    def network_id(self) -> str:
        """Return a network that can be attached."""
        if not self.network_ids:
            raise CannotBeShown('the fixture has no networks (network_ids)')
        return self.network_ids[0]

    def comes_free(self, port_id: str, amphora_id: str) -> Attachment:
        """Wait until a port that might still be in use can be attached to an instance."""
        made: list[Attachment] = []

        def look() -> str:
            try:
                made[:] = [self.driver.attach_port(amphora_id, port_id)]
            except InstanceStateConflict as exc:
                return f'it is refused: {exc}'
            return made[0].amphora_id

        self.becomes(look, lambda user: user == amphora_id)
        return made[0]

    def can_be_used_again(self, port_id: str) -> None:
        """Wait until a port that might still be in use can be used by another instance.

        It is attached, or taken by a build where the driver cannot attach ports.
        """
        if Ability.ATTACH_PORT in self.driver.abilities:
            self.comes_free(port_id, self.build_active())
        else:
            self.comes_free_for_a_build(port_id)

    def comes_free_for_a_build(self, port_id: str) -> None:
        """Wait until a build can have a port that might still be in use."""

        def look() -> str:
            try:
                self.build(port_ids=[port_id])
            except BuildConflict as exc:
                return f'it is refused: {exc}'
            return ''

        self.becomes(look, lambda refused: not refused, f'a build can have port {port_id} again')

    def addresses(self, amphora_id: str) -> set[str]:
        """Return the addresses that an instance has now."""
        return {one.address for one in self.driver.get_amphora(amphora_id=amphora_id).addresses}

    def assert_ip(self, found: Iterable[Address]) -> None:
        """Fail unless all addresses of an instance are addresses of IP."""
        for one in found:
            try:
                # A number would be taken for an address.
                ipaddress.ip_address(str(one.address))
            except ValueError:
                self.broken('the address of an amphora is an IP address', shown(one.address))

    def gains(self, amphora_id: str, attached: Attachment) -> None:
        """Wait until an instance has the addresses of its new port."""
        self.becomes(
            lambda: self.addresses(amphora_id),
            set(attached.addresses).issubset,
            'an attached port brings its addresses',
        )

    def loses(self, amphora_id: str, *detached: Attachment) -> None:
        """Wait until an instance has no address of ports that were detached."""
        lost = {address for one in detached for address in one.addresses}
        self.becomes(
            lambda: self.addresses(amphora_id),
            lost.isdisjoint,
            'a detached port takes its addresses away',
        )

    def assert_names(
        self, error: AmphoraComputeError, amphora_id: str | None, resource_id: str
    ) -> None:
        """Fail unless an error names an instance, and something else, as data."""
        kind = type(error).__name__
        self.assertEqual(error.amphora_id, amphora_id, f'amphora_id of {kind}')
        self.assertEqual(error.resource_id, resource_id, f'resource_id of {kind}')


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
        with self.assertRaises(InstanceStateConflict) as caught:
            self.driver.attach_port(thief, port_id)
        self.assert_names(caught.exception, thief, port_id)

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

    @needs(Ability.ATTACH_PORT, Ability.DETACH_PORT)
    def test_a_detached_port_can_be_attached_to_the_same_instance_again(self) -> None:
        user, other, port_id = self.build_active(), self.build_active(), self.port_id()
        attached = self.driver.attach_port(user, port_id)
        self.gains(user, attached)
        self.driver.detach_port(user, port_id)
        self.loses(user, attached)
        self.comes_free(port_id, user)
        with self.assertRaises(InstanceStateConflict, msg='then it is not free for another'):
            self.driver.attach_port(other, port_id)

    @needs(Ability.ATTACH_PORT)
    def test_the_port_of_a_deleted_instance_can_be_attached_elsewhere(self) -> None:
        first, second, port_id = self.build_active(), self.build_active(), self.port_id()
        before = self.driver.attach_port(first, port_id)
        self.driver.delete(first)
        after = self.comes_free(port_id, second)
        self.assertEqual(after.addresses, before.addresses, 'addresses of the port, as before')

    @needs(Ability.SUSPEND, Ability.ATTACH_PORT)
    def test_in_any_state_an_attached_port_can_be_attached_and_no_other_detached(self) -> None:
        amphora_id, port_id, unknown = self.build_active(), self.port_id(), self.unknown_id()
        attached = self.driver.attach_port(amphora_id, port_id)
        self.gains(amphora_id, attached)
        self.driver.suspend(amphora_id)
        self.settle(amphora_id, State.SUSPENDED)
        again = self.driver.attach_port(amphora_id, port_id)
        self.assertEqual(again.port_id, port_id, 'port_id of the attachment')
        abilities = self.driver.abilities
        if Ability.DETACH_PORT in abilities:
            self.driver.detach_port(amphora_id, unknown)
        if Ability.DETACH_NETWORK in abilities:
            self.driver.detach_network(amphora_id, unknown)
        self.assertIn(attached.addresses, (again.addresses, ()), 'the addresses, as before')
        self.gains(amphora_id, attached)

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
    def test_each_attaching_of_a_network_makes_a_port_and_detaching_it_takes_all(self) -> None:
        amphora_id, network_id = self.build_active(), self.network_id()
        first = self.driver.attach_network(amphora_id, network_id)
        self.gains(amphora_id, first)
        second = self.driver.attach_network(amphora_id, network_id)
        if self.bench.attaches_networks_once:
            self.assertEqual(second.port_id, first.port_id, 'port_id, of one port for a network')
        else:
            self.assertNotEqual(second.port_id, first.port_id, 'port_id of another port')
            both = set(first.addresses) & set(second.addresses)
            self.assertEqual(both, set(), 'addresses that two ports have')
            self.gains(amphora_id, second)
        self.driver.detach_network(amphora_id, network_id)
        self.loses(amphora_id, first, second)

    @needs(Ability.ATTACH_NETWORK)
    def test_a_network_that_does_not_exist_is_not_attached(self) -> None:
        amphora_id, unknown = self.build_active(), self.unknown_id()
        before = self.addresses(amphora_id)
        try:
            attached = self.driver.attach_network(amphora_id, unknown)
        except ResourceNotFoundError as exc:
            self.assert_names(exc, amphora_id, unknown)
            self.assertEqual(self.addresses(amphora_id), before, 'addresses, as before')
            return
        if self.bench.knows_networks:
            self.broken('ResourceNotFoundError, as the network does not exist', in_words(attached))

    @needs(Ability.ATTACH_PORT)
    def test_a_port_that_does_not_exist_is_not_attached(self) -> None:
        amphora_id, unknown = self.build_active(), self.unknown_id()
        try:
            attached = self.driver.attach_port(amphora_id, unknown)
        except ResourceNotFoundError as exc:
            self.assert_names(exc, amphora_id, unknown)
            return
        if self.bench.knows_ports:
            self.broken('ResourceNotFoundError, as the port does not exist', in_words(attached))

    @needs(Ability.ATTACH_NETWORK)
    def test_an_address_that_is_none_or_taken_is_refused(self) -> None:
        amphora_id, network_id = self.build_active(), self.network_id()
        for wrong in ('nowhere', '192.0.2.256', '192.0.2.0/24'):
            with self.assertRaises(InvalidRequest, msg=f'attach_network() at {wrong}'):
                self.driver.attach_network(amphora_id, network_id, address=wrong)
        made = self.driver.attach_network(amphora_id, network_id)
        if not made.addresses or self.bench.attaches_networks_once:
            return
        # A backend can take it for wrong, or reserve the choice of addresses.
        refusals = (InstanceStateConflict, InvalidRequest, PermissionDenied)
        with self.assertRaises(refusals, msg='attach_network() at a taken address') as caught:
            self.driver.attach_network(amphora_id, network_id, address=made.addresses[0])
        self.assert_names(caught.exception, amphora_id, network_id)

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
