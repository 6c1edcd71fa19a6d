"""Choice of a free address on each kind of network that an engine reports."""

import ipaddress
import json
import unittest
import urllib.parse

from hypothesis import given
from hypothesis import strategies as st

from kiln.clock import SYSTEM_CLOCK
from kiln.compute_drivers.authoring import error_context
from kiln.compute_drivers.docker.api.client import Engine
from kiln.compute_drivers.docker.api.errors import Trouble
from kiln.compute_drivers.docker.building import body
from kiln.compute_drivers.docker.building.addresses import Addresses, addresses_in, free_address
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_settings import options


def network(*configs):
    return {'Driver': 'bridge', 'IPAM': {'Config': list(configs)}}


SMALL = {'Subnet': '192.0.2.0/29', 'Gateway': '192.0.2.6'}
#: The usable addresses: without base, broadcast and gateway, explicit or default.
LEFT = {f'192.0.2.{last}' for last in (2, 3, 4, 5)}


class Chosen(unittest.TestCase):
    def test_networks_stay_in_their_order_as_the_first_one_is_the_main_one(self):
        given = [body.Hung(network=name, address='192.0.2.2') for name in 'cab']
        asked = error_context.Asked(verb='build', subject='web')
        # An engine is asked for nothing where each address is given.
        addresses = Addresses(Engine(options(), SYSTEM_CLOCK))
        self.assertEqual(given, addresses.chosen(asked, given))

    def test_other_addresses_help_only_against_what_is_wrong_with_those(self):
        addresses = Addresses(Engine(options(), SYSTEM_CLOCK))
        ours = [body.Hung(network='n1', address='192.0.2.2', chosen=True)]
        given = [body.Hung(network='n1', address='192.0.2.2')]
        for trouble, helps in (
            (Trouble.ADDRESS_TAKEN, True), (Trouble.WRONG_ADDRESS, True),
            (Trouble.NO_SPACE, False), (None, False),
        ):  # fmt: skip
            self.assertIs(helps, addresses.may_choose_again(ours, trouble), trouble)
            self.assertFalse(addresses.may_choose_again(given, trouble), trouble)


class Reserved(unittest.TestCase):
    def test_no_address_that_the_engine_has_for_itself_is_chosen(self):
        config = {
            'Subnet': '192.0.2.0/29', 'Gateway': '192.0.2.6',
            'AuxiliaryAddresses': {'printer': '192.0.2.2', 'router': '192.0.2.3'},
        }  # fmt: skip
        chosen = {free_address(network(config), (), f'k{key}') for key in range(30)}
        self.assertEqual({'192.0.2.4', '192.0.2.5'}, chosen)


class Asked(ScriptedCase):
    """What an engine is asked for an address."""

    def choose(self, *answers):
        engine = Engine(options(url=self.serve(VERSION, *answers)), SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        asked = error_context.Asked(verb='build', subject='web', build_key='k1')
        (chosen,) = Addresses(engine).chosen(asked, [body.Hung(network='n1')])
        return chosen

    def test_the_search_for_an_address_begins_at_a_place_of_the_build(self):
        large = {**network({'Subnet': '10.0.0.0/8'}), 'Id': 'n-1'}
        chosen = self.choose(answer(json.dumps(large).encode()), answer(b'[]'))
        self.assertEqual(free_address(large, (), 'k1'), chosen.address)

    def test_only_the_containers_of_the_network_are_listed(self):
        described = answer(json.dumps({'Id': 'i1', **network(SMALL)}).encode())
        hung = {f'n{last}': {'IPAddress': f'192.0.2.{last}'} for last in (2, 3, 4)}
        there = answer(json.dumps([{'NetworkSettings': {'Networks': hung}}]).encode())
        self.assertEqual(
            body.Hung(network='n1', address='192.0.2.5', chosen=True),
            self.choose(described, there),
        )
        listed = urllib.parse.unquote_plus(self.server.requests[2])
        self.assertIn('{"network": ["i1"]}', listed)
        # One that has stopped keeps the address that it requested.
        self.assertIn('all=1', listed)

    def test_where_engines_assign_no_addresses_none_is_chosen(self):
        overlay = answer(json.dumps({'Id': 'i1', **network(SMALL), 'Driver': 'overlay'}).encode())
        self.assertEqual(body.Hung(network='n1'), self.choose(overlay))


class Free(unittest.TestCase):
    @given(st.sets(st.sampled_from(sorted(LEFT))), st.text(max_size=9))
    def test_an_unused_address_is_found_if_one_exists(self, taken, key):
        found = free_address(network(SMALL), taken, key)
        if taken == LEFT:
            self.assertIsNone(found)
        else:
            self.assertIn(found, LEFT - taken)

    def test_a_full_subnet_is_followed_by_the_next_one(self):
        next_one = {'Subnet': '198.51.100.0/24'}
        found = free_address(network(SMALL, next_one), LEFT, 'k')
        self.assertIn(ipaddress.ip_address(found), ipaddress.ip_network(next_one['Subnet']))

    @given(st.text(max_size=9), st.integers(8, 29))
    def test_subnets_of_any_size_work(self, key, length):
        subnet = ipaddress.IPv4Network(f'10.0.0.0/{length}')
        found = ipaddress.IPv4Address(free_address(network({'Subnet': str(subnet)}), (), key))
        self.assertIn(found, subnet)
        self.assertNotIn(found, (subnet[0], subnet[1], subnet[-1]))

    def test_a_build_keeps_its_address_and_two_builds_rarely_share_one(self):
        wide = network({'Subnet': '10.0.0.0/16'})
        found = [free_address(wide, (), f'key-{number % 20}') for number in range(40)]
        self.assertEqual(found[:20], found[20:])
        self.assertEqual(20, len(set(found)))

    def test_only_addresses_in_the_engine_s_range_are_chosen(self):
        ranged = {'Subnet': '192.0.2.0/24', 'IPRange': '192.0.2.64/30',
                  'AuxiliaryAddresses': {'router': '192.0.2.65'}}  # fmt: skip
        found = {free_address(network(ranged), (), str(number)) for number in range(50)}
        self.assertEqual({'192.0.2.64', '192.0.2.66', '192.0.2.67'}, found)

    def test_an_ipv6_subnet_is_skipped(self):
        self.assertIsNone(free_address(network({'Subnet': '2001:db8::/64'}), (), 'k'))
        self.assertIn(free_address(network({'Subnet': '2001:db8::/64'}, SMALL), (), 'k'), LEFT)

    def test_a_network_without_subnet_yields_no_address(self):
        for told in ({}, {'IPAM': None}, {'IPAM': {'Config': None}}, network({})):
            self.assertIsNone(free_address(told, (), 'k'))

    def test_a_stopped_container_keeps_its_address(self):
        for hung, addresses in (
            ({'IPAddress': '192.0.2.2', 'IPAMConfig': None}, ['192.0.2.2']),
            ({'IPAddress': '', 'IPAMConfig': {'IPv4Address': '192.0.2.3'}}, ['192.0.2.3']),
            ({}, []),
        ):
            self.assertEqual(addresses, list(addresses_in(hung)))
