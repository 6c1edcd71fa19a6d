"""Behaviours of validation: it predicts the result of a build."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import InvalidBuildRequest, InvalidRequest
from kiln.models import Ability
from kiln.testing.conformance.fixture import ConformanceFixture, needs, takes

#: How many zones are tried, as each costs a build.
_ZONES = 3
#: Ports that hardly any group opens, with one number for both protocols.
_PORTS = ('2377/tcp', '7946/tcp', '7946/udp', '4789/udp')


class Offers(ConformanceFixture):
    """Validation of flavors, images, zones, networks and security groups."""

    @needs(Ability.VALIDATE_FLAVOR)
    @takes(amphora_flavor='some')
    def test_an_unknown_flavor_is_refused_as_a_build_would_refuse_it(self) -> None:
        self.compare_unknown('amphora_flavor', self.driver.validate_flavor)

    @needs(Ability.VALIDATE_IMAGE)
    @takes(image_id='some')
    def test_an_unknown_image_is_refused_as_a_build_would_refuse_it(self) -> None:
        self.compare_unknown('image_id', self.driver.validate_image)

    @needs(Ability.VALIDATE_ZONE)
    @takes(availability_zone='some')
    def test_an_unknown_zone_is_refused_as_a_build_would_refuse_it(self) -> None:
        self.compare_unknown('availability_zone', self.driver.validate_zone)

    @needs(Ability.VALIDATE_NETWORK)
    @takes(network_ids=['some'])
    def test_an_unknown_network_is_refused_as_a_build_would_refuse_it(self) -> None:
        self.compare_unknown('network_ids', self.driver.validate_network, in_list=True)

    @needs(Ability.VALIDATE_SECURITY_GROUP)
    @takes(sec_groups=['some'])
    def test_an_unknown_security_group_is_refused_as_a_build_would_refuse_it(self) -> None:
        self.compare_unknown('sec_groups', self.driver.validate_security_group, in_list=True)

    @needs(Ability.VALIDATE_FLAVOR)
    def test_the_flavor_of_an_instance_is_valid(self) -> None:
        if flavor := self.described().flavor:
            self.driver.validate_flavor(flavor)

    @needs(Ability.VALIDATE_IMAGE)
    def test_the_image_of_an_instance_is_valid(self) -> None:
        if image_id := self.described().image_id:
            self.driver.validate_image(image_id)

    @needs(Ability.DESCRIBE_IMAGE)
    def test_the_image_of_an_instance_is_described_by_text(self) -> None:
        if image_id := self.described().image_id:
            facts = self.driver.describe_image(image_id)
            self.assertEqual(facts.id, image_id)
            said = [*facts.properties.keys(), *facts.properties.values()]
            self.assertEqual([text for text in said if not isinstance(text, str)], [])

    @needs(Ability.DESCRIBE_IMAGE)
    @takes(image_id='some')
    def test_an_unknown_image_is_described_only_if_builds_take_it(self) -> None:
        self.compare_unknown('image_id', self.driver.describe_image)

    @needs(Ability.DESCRIBE_IMAGE)
    def test_an_image_is_described_by_its_own_name_and_properties(self) -> None:
        if not self.images:
            raise CannotBeShown('the bench names no images')
        for image in self.images:
            for word in {image.id, image.name} - {''}:
                facts = self.driver.describe_image(word)
                self.assertEqual(facts.id, image.id, 'id')
                # An image with several names has any of them.
                self.assertEqual(facts.name, image.name or facts.name, 'name')
                wrong = dict(image.properties.items() - facts.properties.items())
                self.assertEqual(wrong, {}, f'properties of {word} that are not described')

    @needs(Ability.VALIDATE_ZONE)
    def test_the_zone_of_an_instance_is_valid(self) -> None:
        if zone := self.described().availability_zone:
            self.driver.validate_zone(zone)

    @needs(Ability.VALIDATE_NETWORK)
    @takes(network_ids=['some'])
    def test_a_network_that_a_build_has_is_valid(self) -> None:
        if not self.network_ids:
            raise CannotBeShown('the fixture has no networks (network_ids)')
        network_id = self.network_ids[0]
        self.build(network_ids=[network_id])
        self.driver.validate_network(network_id)

    @needs(Ability.VALIDATE_SECURITY_GROUP)
    @takes(sec_groups=['some'])
    def test_a_security_group_that_a_build_has_is_valid(self) -> None:
        group = self.sec_group()
        self.build(sec_groups=[group])
        self.driver.validate_security_group(group)

    @needs(Ability.CHECK_PORTS)
    @takes(sec_groups=['some'])
    def test_ports_of_an_unknown_security_group_are_checked_only_if_builds_take_it(self) -> None:
        known = self.sec_group()
        for check in (
            lambda name: self.driver.check_ports([name], []),
            lambda name: self.driver.check_ports([known], [], [known, name]),
        ):
            self.compare_unknown('sec_groups', check, in_list=True)

    @needs(Ability.CHECK_PORTS)
    def test_ports_that_security_groups_open_to_their_members_are_open(self) -> None:
        guarded = self.guarded_ports()
        for group, ports in guarded.items():
            self.driver.check_ports([group], ports)
            self.driver.check_ports([group], ports, [group, *guarded])
        self.driver.check_ports([*guarded], [port for ports in guarded.values() for port in ports])

    @needs(Ability.CHECK_PORTS)
    def test_a_port_that_a_security_group_does_not_open_is_refused_by_its_name(self) -> None:
        guarded = self.guarded_ports()
        for group, ports in guarded.items():
            closed = [port for port in _PORTS if port not in ports]
            with self.assertRaises(InvalidRequest, msg=f'ports of {group}') as caught:
                self.driver.check_ports([group], [*ports, *closed])
            self.assertEqual(caught.exception.resource_id, group, 'resource_id')
            said = re.findall('[0-9]+/(?:tcp|udp)', str(caught.exception))
            self.assertEqual(sorted(set(said)), sorted(closed), 'the ports that the error names')
        with self.assertRaises(InvalidRequest, msg='ports of all groups together'):
            self.driver.check_ports([*guarded], _PORTS)

    @needs(Ability.CHECK_PORTS)
    def test_a_port_that_is_open_to_members_is_refused_for_machines_of_other_groups(self) -> None:
        guarded = self.guarded_ports()
        for group in guarded:
            others = [other for other in guarded if other != group]
            if not others:
                raise CannotBeShown('the bench names only one security group (group_ports)')
            with self.assertRaises(InvalidRequest, msg=f'ports of {group} for {others}'):
                self.driver.check_ports([group], guarded[group], others)

    @needs(Ability.LIST_ZONES)
    def test_the_zones_are_named_once_and_the_zone_of_an_instance_is_one_of_them(self) -> None:
        zones = list(self.driver.list_zones())
        self.assertEqual(sorted(zones), sorted(set(zones)))
        # A backend that takes any zone name has no zones to list.
        if zones and (zone := self.described().availability_zone):
            self.assertIn(zone, zones)

    @needs(Ability.LIST_ZONES)
    @takes(availability_zone='some')
    def test_builds_accept_each_zone_that_is_listed_or_any_where_none_is_listed(self) -> None:
        for zone in self.driver.list_zones()[:_ZONES] or (self.unknown_id(),):
            self.build(availability_zone=zone)

    def guarded_ports(self) -> Mapping[str, Sequence[str]]:
        """Return the security groups of the bench, with the ports that they open."""
        if not self.group_ports:
            raise CannotBeShown('the bench names no ports of security groups (group_ports)')
        return self.group_ports

    def sec_group(self) -> str:
        """Return a security group of the bench, or the one that each project of Neutron has."""
        given = self.bench.build_arguments.get('sec_groups') or ('default',)
        return str(given[0])

    def compare_unknown(
        self, argument: str, validate: Callable[[str], object], *, in_list: bool = False
    ) -> None:
        """Validate and build with something unknown, and compare the results."""
        unknown = self.unknown_id()
        given: Any = [unknown] if in_list else unknown
        try:
            validate(unknown)
        except InvalidRequest:
            with self.assertRaises(InvalidBuildRequest):
                self.build(**{argument: given})
        else:
            # A backend can accept any name; then its builds must accept it as well.
            self.build(**{argument: given})
