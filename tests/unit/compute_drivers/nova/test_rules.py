"""Rules of security groups: which ports they leave closed to members of other groups."""

import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from kiln.compute_drivers.nova.rules import closed_ports
from tests.examples import examples

SWARM = ('2377/tcp', '7946/tcp', '7946/udp', '4789/udp')
TCP, UDP = ('tcp', '6', 'TCP'), ('udp', '17')
EVERY = (None, 'any', '0')

PORTS = st.builds('{}/{}'.format, st.integers(1, 65_535), st.sampled_from(['tcp', 'udp']))


def rule(protocol=None, first=None, last=None, **more):
    """Return a rule as Neutron shows it: without more, for all that comes in."""
    return {
        'direction': 'ingress', 'ethertype': 'IPv4', 'protocol': protocol,
        'port_range_min': first, 'port_range_max': last,
        'remote_group_id': None, 'remote_ip_prefix': None, 'remote_address_group_id': None,
        **more,
    }  # fmt: skip


@st.composite
def rules(draw):
    """Return any rule: some open a range of ports, some only an ICMP type, some nothing."""
    first = draw(st.none() | st.integers(1, 65_535))
    last = None if first is None else draw(st.integers(first, 65_535))
    return rule(
        draw(st.sampled_from([*EVERY, *TCP, *UDP, 'icmp', '132'])), first, last,
        direction=draw(st.sampled_from(['ingress', 'egress'])),
        remote_group_id=draw(st.sampled_from([None, 'own', 'other'])),
        remote_ip_prefix=draw(st.sampled_from([None, '0.0.0.0/0', '10.0.0.0/8'])),
    )  # fmt: skip


def number_of(port):
    return int(port.partition('/')[0])


MANY = st.lists(rules(), max_size=5)
SOME_PORTS = st.lists(PORTS, max_size=4, unique=True)


class Examples(unittest.TestCase):
    def closed(self, *given):
        return closed_ports(given, SWARM, {'own'})

    def test_the_rules_that_neutron_gives_the_default_group_close_nothing(self):
        given = [rule(remote_group_id='own', ethertype=family) for family in ('IPv4', 'IPv6')]
        self.assertEqual((), self.closed(*given))

    def test_without_a_rule_every_port_is_closed(self):
        self.assertEqual(SWARM, self.closed())
        self.assertEqual(SWARM, self.closed(rule(direction='egress')))

    def test_a_port_is_open_only_for_the_protocol_of_its_rule(self):
        self.assertEqual(
            ('2377/tcp', '7946/udp', '4789/udp'), self.closed(rule('tcp', 7946, 7946))
        )
        self.assertEqual(SWARM, self.closed(rule('icmp'), rule('132', 1, 65_535)))

    def test_both_ends_of_a_range_are_open(self):
        self.assertEqual(('2377/tcp',), self.closed(rule('tcp', 2378, 7946), rule('udp')))
        self.assertEqual((), self.closed(rule('tcp', 2377, 7946), rule('udp', 4789, 7946)))

    def test_a_rule_for_other_groups_opens_nothing(self):
        self.assertEqual(SWARM, self.closed(rule(remote_group_id='other')))

    def test_a_rule_for_everybody_or_for_some_addresses_opens_its_ports(self):
        for remote in (
            {}, {'remote_ip_prefix': '0.0.0.0/0'}, {'remote_ip_prefix': '::/0'},
            {'remote_ip_prefix': '10.0.0.0/24'}, {'remote_address_group_id': 'a'},
        ):  # fmt: skip
            with self.subTest(remote):
                self.assertEqual((), self.closed(rule(**remote)))


class Properties(unittest.TestCase):
    @settings(max_examples=examples(100), deadline=None)
    @given(MANY, SOME_PORTS)
    def test_closed_ports_are_some_of_those_asked_for_in_their_order(self, given_, ports):
        closed = closed_ports(given_, ports, {'own'})
        self.assertEqual([port for port in ports if port in closed], list(closed))

    @settings(max_examples=examples(100), deadline=None)
    @given(MANY, rules(), SOME_PORTS)
    def test_a_further_rule_closes_nothing(self, given_, further, ports):
        before = closed_ports(given_, ports, {'own'})
        self.assertLessEqual(set(closed_ports([*given_, further], ports, {'own'})), set(before))

    @settings(max_examples=examples(100), deadline=None)
    @given(MANY, MANY, SOME_PORTS)
    def test_groups_together_open_what_one_of_them_opens(self, some, others, ports):
        each = [set(closed_ports(one, ports, {'own'})) for one in (some, others)]
        together = closed_ports([*others, *some], ports, {'own'})
        self.assertEqual(each[0] & each[1], set(together))

    @settings(max_examples=examples(100), deadline=None)
    @given(MANY, SOME_PORTS)
    def test_peers_of_more_groups_find_no_more_ports_closed(self, given_, ports):
        few = closed_ports(given_, ports, {'own'})
        self.assertLessEqual(set(closed_ports(given_, ports, {'own', 'other'})), set(few))

    @settings(max_examples=examples(100), deadline=None)
    @given(MANY, PORTS, st.integers(0, 3), st.integers(0, 3))
    def test_a_rule_for_the_group_itself_opens_each_port_of_its_range(
        self, given_, port, below, above
    ):
        first, last = number_of(port) - below, number_of(port) + above
        for protocol in TCP if port.endswith('tcp') else UDP:
            opening = rule(protocol, first, last, remote_group_id='own')
            self.assertEqual((), closed_ports([*given_, opening], [port], {'own'}))

    @settings(max_examples=examples(100), deadline=None)
    @given(MANY, SOME_PORTS)
    def test_rules_that_name_only_other_groups_or_what_goes_out_open_nothing(self, given_, ports):
        shut = [
            one for one in given_
            if one['direction'] == 'egress' or one['remote_group_id'] == 'other'
        ]  # fmt: skip
        self.assertEqual(tuple(ports), closed_ports(shut, ports, {'own'}))


if __name__ == '__main__':
    unittest.main()
