"""Behaviours of build requests: all that is requested is found again, or refused."""

from __future__ import annotations

import contextlib
from typing import Any

from kiln.compute_drivers import validation
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import BuildConflict, InvalidBuildRequest
from kiln.models import Ability, Amphora, BuildRequest, Limits
from kiln.testing.conformance.behaviours.ports import Attaching
from kiln.testing.conformance.fixture import needs, takes
from kiln.testing.conformance.wording import shown

_NAME = 'Größe-名前'
#: Contents of arguments that no call of the contract reports.
_CONFIDENTIAL: dict[str, Any] = {
    'keys': [
        'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl kit'
    ],
    'config_drive_files': {'/etc/kit/motd': ('Grüße', 0o600, 'root'), '/etc/kit/empty': b''},
    'user_data': '#!/bin/sh\necho Grüße\n',
}
#: Arguments of which each has a field of an amphora.
_PLACING = {
    'amphora_flavor': 'flavor',
    'image_id': 'image_id',
    'availability_zone': 'availability_zone',
}
#: Fields of a build request that have another name than their argument.
_FIELDS = {'config_drive_files': 'files'}


class Requests(Attaching, contract=(ComputeHooks._build, BuildRequest, Limits)):
    """Requests."""

    def test_a_flavor_is_reported_as_it_was_given_or_refused(self) -> None:
        self.kept_or_refused('amphora_flavor', 'flavor')

    def test_an_image_is_reported_as_it_was_given_or_refused(self) -> None:
        self.kept_or_refused('image_id', 'image_id')

    def test_a_zone_is_reported_as_it_was_given_or_refused(self) -> None:
        self.kept_or_refused('availability_zone', 'availability_zone')

    def test_a_server_group_is_reported_as_it_was_given_or_refused(self) -> None:
        self.kept_or_refused('server_group_id', 'server_group_id')

    def test_a_flavor_an_image_and_a_zone_that_exist_are_reported(self) -> None:
        named: dict[str, Any] = {}
        first = self.described()
        for argument, field in _PLACING.items():
            named[argument] = getattr(first, field)
            if self.build_arguments.get(argument) is not None:
                self.assertIsNotNone(named[argument], f'{field}, as the build named one')
        given = self.taken(**{name: value for name, value in named.items() if value is not None})
        if given:
            found = self.described(**given)
            for argument, value in given.items():
                self.assertEqual(getattr(found, _PLACING[argument]), value, _PLACING[argument])

    @needs(Ability.LIST_ZONES)
    @takes(availability_zone='some')
    def test_an_instance_is_in_the_zone_that_was_requested(self) -> None:
        for zone in self.driver.list_zones()[:3]:
            built = self.build_active(availability_zone=zone)
            found = self.driver.get_amphora(amphora_id=built)
            self.assertEqual(found.availability_zone, zone)

    @takes(metadata={'purpose': 'kit'})
    def test_a_name_and_metadata_outside_ascii_are_kept_or_refused(self) -> None:
        name = f'{self.new_key()}-{_NAME}'
        try:
            amphora_id = self.build(name=name, metadata={'purpose': _NAME})
        except InvalidBuildRequest:
            return
        found = self.driver.get_amphora(name)
        self.assertEqual((found.id, found.name), (amphora_id, name))
        self.assertEqual(found.metadata.get('purpose'), _NAME)
        self.assertIn(name, {one.name for one in self.driver.list_amphorae()})

    @takes(network_ids=['some'])
    def test_a_network_of_a_build_is_attached(self) -> None:
        network_id = self.network_id()
        amphora_id = self.build_active(network_ids=[network_id])
        self.assert_on_network(amphora_id, network_id)

    @takes(port_ids=['some'])
    def test_the_ports_of_a_build_are_attached(self) -> None:
        ports = self.two_ports()
        amphora_id = self.build_active(port_ids=ports)
        self.assert_has_ports(amphora_id, ports)

    @takes(port_ids=['some'])
    @takes(network_ids=['some'])
    def test_a_build_has_the_ports_and_the_networks_that_it_named_and_no_others(self) -> None:
        ports, network_id = self.ports_of_bench(), self.network_id()
        amphora_id = self.build_active(port_ids=ports, network_ids=[network_id])
        found = self.driver.get_amphora(amphora_id=amphora_id).addresses
        self.assertTrue(found, 'the amphora has an address')
        has = {one.port_id for one in found}
        # A backend can leave the ports of addresses out, or of those that it has made.
        if has != {None}:
            self.assertLessEqual(set(ports), has, 'the ports of the addresses')
            made = {(one.network_id, one.port_id) for one in found if one.port_id not in ports}
            self.assertEqual(len(made), 1, 'the number of ports of the network')

    @takes(network_ids=['some'])
    def test_a_build_with_a_network_that_does_not_exist_is_refused(self) -> None:
        self.refused_if_unknown('network_ids', known=self.bench.knows_networks)

    @takes(port_ids=['some'])
    def test_a_build_with_a_port_that_does_not_exist_is_refused(self) -> None:
        self.refused_if_unknown('port_ids', known=self.bench.knows_ports)

    @takes(port_ids=['some'])
    def test_a_build_with_the_port_of_another_instance_is_refused(self) -> None:
        taken, key = self.port_id(), self.new_key()
        self.build()
        self.build_active(port_ids=[taken])
        with self.assertRaises(BuildConflict):
            self.build(build_key=key, port_ids=[taken])
        self.assertIsNone(self.driver.find_build(key), 'a build that is refused makes nothing')
        # The port is in the way of no other build.
        self.build()

    @takes(port_ids=['some'])
    def test_a_build_with_a_free_and_a_taken_port_takes_neither(self) -> None:
        (free, taken), key = self.two_ports(), self.a_key()
        if Ability.ATTACH_PORT in self.driver.abilities:
            user = self.build_active()
            self.driver.attach_port(user, taken)
        else:
            user = self.build_active(port_ids=[taken])
        for ports in ([free, taken], [taken, free]):
            with self.assertRaises(BuildConflict) as caught:
                self.build(build_key=key, port_ids=ports)
            self.assertEqual(caught.exception.build_key, key, 'build_key of the error')
            found = self.driver.find_build(key)
            self.assertIsNone(found, 'a build that is refused makes nothing')
        self.assert_has_ports(user, [taken])
        self.can_be_used_again(free)

    @takes(port_ids=['some'])
    def test_a_build_can_have_the_port_of_an_instance_that_was_deleted(self) -> None:
        port_id = self.port_id()
        first = self.build_active(port_ids=[port_id])
        self.driver.delete(first)
        self.gone(first)
        self.comes_free_for_a_build(port_id)

    def test_all_that_is_requested_together_is_found_again(self) -> None:
        given = self.taken(
            metadata={'purpose': 'kit'}, availability_zone=self.a_zone(), **_CONFIDENTIAL
        )
        given = {name: value for name, value in given.items() if value is not None}
        with_networks = self.network_ids and not self.lacks_quietly('network_ids')
        if with_networks:
            given['network_ids'] = [self.network_id()]
        try:
            amphora_id = self.build_active(**given)
        except InvalidBuildRequest as exc:
            raise CannotBeShown(f'this backend does not take all at once: {exc}') from exc
        found = self.driver.get_amphora(amphora_id=amphora_id)
        self.assertEqual(dict(found.metadata), dict(given.get('metadata', {})))
        if zone := given.get('availability_zone'):
            self.assertEqual(found.availability_zone, zone)
        if with_networks:
            self.assert_on_network(amphora_id, self.network_id())

    def test_keys_files_and_user_data_reach_the_backend(self) -> None:
        alone = [{name: value} for name, value in _CONFIDENTIAL.items()]
        alone.append({'sec_groups': ['default']})
        for given in (*alone, _CONFIDENTIAL):
            if asked := self.taken(**given):
                # A backend can need a certain image for it.
                with contextlib.suppress(InvalidBuildRequest):
                    self.assert_received(**asked)

    @takes(config_drive_files={'/etc/kit/owned': 'x'})
    def test_a_file_of_an_account_that_only_the_image_has_is_taken_or_refused(self) -> None:
        # A driver that looks for it on its own machine does not find it.
        account = self.bench.image_account or 'kit-8f21:kit-8f21'
        for owner in (account, account.partition(':')[0]):
            key = self.a_key()
            try:
                # It is enough if no call shows what has arrived.
                with contextlib.suppress(CannotBeShown):
                    self.assert_received(
                        build_key=key, config_drive_files={'/etc/kit/owned': ('x', 0o640, owner)}
                    )
            except InvalidBuildRequest as exc:
                self.assertEqual(exc.build_key, key, 'build_key of the error')
                found = self.driver.find_build(key)
                self.assertIsNone(found, 'a build that is refused makes nothing')

    def test_all_instances_are_found_however_many_there_are(self) -> None:
        built = {self.build() for _ in range(self.bench.page_size + 1)}
        listed = [one.id for one in self.driver.list_amphorae() if one.id in built]
        self.assertEqual(sorted(listed), sorted(built), 'the list, which has each once')
        self.assertLessEqual(built, {one.amphora_id for one in self.driver.changes().statuses})
        self.assertEqual(built, set(self.driver.statuses(built)))

    def test_addresses_come_in_one_order_and_by_port(self) -> None:
        amphora_id = self.build_active()
        found = [self.driver.get_amphora(amphora_id=amphora_id) for _ in range(2)]
        listed = [one for one in self.driver.list_amphorae() if one.id == amphora_id]
        orders = {tuple(one.address for one in seen.addresses) for seen in (*found, *listed)}
        self.assertEqual(len(orders), 1, 'the number of orders in which addresses come')
        ports = [(one.network_id, one.port_id, one.mac) for one in found[0].addresses]
        self.assertNotIn('', {fact for port in ports for fact in port}, 'a fact of an address')
        begins = [one for i, one in enumerate(ports) if i == 0 or ports[i - 1] != one]
        self.assertEqual(len(begins), len(set(ports)), 'the number of groups of addresses')

    def assert_received(self, **given: Any) -> None:
        """Build, and fail unless the backend has received what no call reports.

        :raises InvalidBuildRequest: the backend refuses the build.
        """
        arguments = self.arguments(**given)
        request = validation.build_request(self.driver.limits, arguments, owner=self.driver.owner)
        amphora_id = self.build(**arguments)
        fields = {_FIELDS.get(name, name) for name in given}
        lacking = fields & set(self.bench.lacking(amphora_id, request))
        if lacking:
            part = self.part_that_is_lost(request) if 'files' in lacking else ''
            self.broken(
                'the backend receives all keys, files and user data', shown(lacking) + part
            )

    def part_that_is_lost(self, request: BuildRequest) -> str:
        """Return which part of its files does not arrive, found by builds that lack one part."""
        others = {
            'mode: with 0644': {
                one.path: (one.content, 0o644, one.owner) for one in request.files
            },
            'owner: with root': {
                one.path: (one.content, one.mode, 'root') for one in request.files
            },
        }
        for part, files in others.items():
            given = self.arguments(config_drive_files=files)
            other = validation.build_request(self.driver.limits, given, owner=self.driver.owner)
            if other.files == request.files:
                continue
            if 'files' not in self.bench.lacking(self.build(**given), other):
                return f', because of their {part} they arrive'
        return ''

    def kept_or_refused(self, argument: str, field: str) -> None:
        """Fail unless an unknown value is refused, or reported again."""
        value, key = self.unknown_id(), self.a_key()
        try:
            found = self.described(build_key=key, **{argument: value})
        except InvalidBuildRequest as exc:
            # An option that is not supported is refused before there is a request.
            if not self.lacks_quietly(argument):
                self.assertEqual(exc.build_key, key, 'build_key of the error')
            return
        self.assertEqual(getattr(found, field), value, field)

    def refused_if_unknown(self, argument: str, *, known: bool) -> None:
        """Fail unless a build that names an unknown port or network is refused, or can be."""
        key = self.a_key()
        try:
            amphora_id = self.build(build_key=key, **{argument: [self.unknown_id()]})
        except InvalidBuildRequest as exc:
            self.assertEqual(exc.build_key, key, 'build_key of the error')
            self.assertIsNone(self.driver.find_build(key), 'a build that is refused makes nothing')
            return
        if known:
            self.broken(f'InvalidBuildRequest, as {argument} exist not', f'amphora {amphora_id}')

    def a_key(self) -> str:
        """Return an unused build key with capitals, which nothing must change."""
        return f'{self.new_key()}-Key'

    def lacks_quietly(self, option: str) -> bool:
        """Return True if the backend does not support an option."""
        return option in self.driver.limits.refused_options

    def a_zone(self) -> str | None:
        """Return a zone that accepts builds, if the driver can list them."""
        if Ability.LIST_ZONES not in self.driver.abilities:
            return None
        return next(iter(self.driver.list_zones()), None)

    def assert_has_ports(self, amphora_id: str, ports: list[str]) -> None:
        """Fail unless an instance has ports, and no other instance can have them."""
        found: Amphora = self.driver.get_amphora(amphora_id=amphora_id)
        has = {one.port_id for one in found.addresses}
        self.assertTrue(found.addresses, 'the amphora has an address')
        if self.bench.reports_ports:
            self.assertLessEqual(set(ports), has, 'the ports of the addresses (reports_ports)')
        self.assertIn(has & {*ports, None}, ({None}, set(ports)), 'the ports of the addresses')
        if Ability.ATTACH_PORT in self.driver.abilities:
            for port_id in ports:
                attached = self.driver.attach_port(amphora_id, port_id)
                self.assertEqual(attached.port_id, port_id)
            again = self.driver.get_amphora(amphora_id=amphora_id)
            self.assertEqual(
                len(again.addresses), len(found.addresses), 'the number of addresses, as before'
            )

    def assert_on_network(self, amphora_id: str, network_id: str) -> None:
        """Fail unless an instance has a port on a network."""
        found = self.driver.get_amphora(amphora_id=amphora_id).addresses
        self.assertTrue(found, 'the amphora has an address')
        self.assert_ip(found)
        if self.bench.reports_networks:
            networks = {one.network_id for one in found}
            self.assertIn(network_id, networks, 'the networks of the addresses (reports_networks)')
        if Ability.DETACH_NETWORK not in self.driver.abilities:
            self.assertIn(network_id, {one.network_id or network_id for one in found})
            return
        # A backend can report a network by another name than it was given.
        self.driver.detach_network(amphora_id, network_id)
        self.becomes(
            lambda: len(self.driver.get_amphora(amphora_id=amphora_id).addresses),
            lambda count: count < len(found),
            'detaching the network of a build takes an address away',
        )
