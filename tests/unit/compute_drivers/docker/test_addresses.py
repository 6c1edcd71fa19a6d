"""Which address a container is to keep, for each network an engine may tell of."""

import ipaddress
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.docker.addresses import addresses_in, free_address


def network(*configs):
    return {'Driver': 'bridge', 'IPAM': {'Config': list(configs)}}


SMALL = {'Subnet': '192.0.2.0/29', 'Gateway': '192.0.2.6'}
#: What is left of it: no base, no broadcast, no gateway, be it named or the usual one.
LEFT = {f'192.0.2.{last}' for last in (2, 3, 4, 5)}


class Free(unittest.TestCase):
    @given(st.sets(st.sampled_from(sorted(LEFT))), st.text(max_size=9))
    def test_it_is_one_that_nobody_has_as_long_as_there_is_one(self, taken, key):
        found = free_address(network(SMALL), taken, key)
        if taken == LEFT:
            self.assertIsNone(found)
        else:
            self.assertIn(found, LEFT - taken)

    @given(st.text(max_size=9), st.integers(8, 29))
    def test_large_and_small_subnets_serve_alike(self, key, length):
        subnet = ipaddress.IPv4Network(f'10.0.0.0/{length}')
        found = ipaddress.IPv4Address(free_address(network({'Subnet': str(subnet)}), (), key))
        self.assertIn(found, subnet)
        self.assertNotIn(found, (subnet[0], subnet[1], subnet[-1]))

    def test_one_build_gets_the_same_and_two_seldom_do(self):
        wide = network({'Subnet': '10.0.0.0/16'})
        found = [free_address(wide, (), f'key-{number % 20}') for number in range(40)]
        self.assertEqual(found[:20], found[20:])
        self.assertEqual(20, len(set(found)))

    def test_only_what_the_engine_may_give_is_chosen(self):
        ranged = {'Subnet': '192.0.2.0/24', 'IPRange': '192.0.2.64/30',
                  'AuxiliaryAddresses': {'router': '192.0.2.65'}}  # fmt: skip
        found = {free_address(network(ranged), (), str(number)) for number in range(50)}
        self.assertEqual({'192.0.2.64', '192.0.2.66', '192.0.2.67'}, found)

    def test_a_subnet_of_the_other_family_is_passed_over(self):
        self.assertIsNone(free_address(network({'Subnet': '2001:db8::/64'}), (), 'k'))
        self.assertIn(free_address(network({'Subnet': '2001:db8::/64'}, SMALL), (), 'k'), LEFT)

    def test_where_the_engine_tells_of_no_subnet_there_is_none(self):
        for told in ({}, {'IPAM': None}, {'IPAM': {'Config': None}}, network({})):
            self.assertIsNone(free_address(told, (), 'k'))

    def test_the_address_of_one_that_is_stopped_is_its_own_yet(self):
        for hung, addresses in (
            ({'IPAddress': '192.0.2.2', 'IPAMConfig': None}, ['192.0.2.2']),
            ({'IPAddress': '', 'IPAMConfig': {'IPv4Address': '192.0.2.3'}}, ['192.0.2.3']),
            ({}, []),
        ):
            self.assertEqual(addresses, list(addresses_in(hung)))
