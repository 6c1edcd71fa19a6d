"""Translation of Nova's servers to kiln's values."""

import copy
import json
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.nova import translate
from kiln.exceptions import InsufficientCapacity
from kiln.models import Address, AmphoraType, Attachment, State
from tests.unit.compute_drivers.nova.corpus import SERVERS

#: Nova's (vm_state, task_state), and the state of the amphora.
STATES = (
    ('building', None, State.PENDING),
    ('building', 'scheduling', State.PENDING),
    ('building', 'block_device_mapping', State.BUILDING),
    ('building', 'networking', State.BUILDING),
    ('building', 'spawning', State.BUILDING),
    ('building', 'deleting', State.DELETING),
    ('active', None, State.ACTIVE),
    ('active', 'rebooting', State.ACTIVE),
    ('active', 'deleting', State.DELETING),
    ('active', 'soft-deleting', State.DELETING),
    ('resized', None, State.ACTIVE),
    ('suspended', None, State.SUSPENDED),
    ('suspended', 'deleting', State.DELETING),
    ('paused', None, State.STOPPED),
    ('stopped', None, State.STOPPED),
    ('shelved', None, State.STOPPED),
    ('shelved_offloaded', None, State.STOPPED),
    ('error', None, State.ERROR),
    ('error', 'deleting', State.DELETING),
    ('soft-delete', None, State.DELETING),
    ('deleted', None, State.DELETED),
    ('deleted', 'deleting', State.DELETED),
    # It runs, but from another image than its own.
    ('rescued', None, State.UNKNOWN),
    # A cell is down.
    (None, None, State.UNKNOWN),
    ('whatever comes next', None, State.UNKNOWN),
)
#: The states of the recorded servers.
RECORDED = {
    'building': State.BUILDING,
    'active': State.ACTIVE,
    'deleting': State.DELETING,
    'locked': State.ACTIVE,
    'no_valid_host': State.ERROR,
    'spawn_failed': State.ERROR,
    'aborted': State.ERROR,
    'port_not_bound': State.ERROR,
    'admin_view_user_data': State.ACTIVE,
    'suspended': State.SUSPENDED,
    'paused': State.STOPPED,
    'stopped': State.STOPPED,
    'shelved': State.STOPPED,
    'deleted': State.DELETED,
}
NOW = 1_700_000_000.0


class States(unittest.TestCase):
    def test_every_pair_of_states_has_one_meaning(self):
        for vm_state, task_state, state in STATES:
            with self.subTest(vm_state, task_state=task_state):
                server = {'OS-EXT-STS:vm_state': vm_state, 'OS-EXT-STS:task_state': task_state}
                self.assertIs(state, translate.state_of(server))

    def test_recorded_servers_have_their_states(self):
        self.assertEqual(
            RECORDED, {name: translate.state_of(server) for name, server in SERVERS.items()}
        )

    def test_a_server_of_a_cell_that_is_down_is_unknown_and_not_gone(self):
        # All fields of such a server since microversion 2.69.
        server = {
            'id': 's-1', 'status': 'UNKNOWN', 'tenant_id': 'p', 'created': '2026-11-21T08:37:42Z',
            'links': [],
        }  # fmt: skip
        self.assertIs(State.UNKNOWN, translate.status_of(server, NOW).state)
        amphora = translate.amphora_of(server)
        self.assertIs(State.UNKNOWN, amphora.state)
        self.assertEqual(('', None, ()), (amphora.name, amphora.build_key, amphora.addresses))

    def test_a_server_that_is_busy_is_not_ready(self):
        server = {'id': 's-1', 'OS-EXT-STS:vm_state': 'active'}
        self.assertTrue(translate.status_of(server, NOW).ready)
        server['OS-EXT-STS:task_state'] = 'rebooting'
        status = translate.status_of(server, NOW)
        self.assertFalse(status.ready)
        self.assertEqual('rebooting', status.task_state)


class Amphorae(unittest.TestCase):
    def test_a_real_server_is_an_amphora(self):
        server = SERVERS['active']
        amphora = translate.amphora_of(server)
        self.assertEqual(server['id'], amphora.id)
        self.assertEqual('corpus-active', amphora.name)
        self.assertEqual(('k-1', 'east'), (amphora.build_key, amphora.owner))
        self.assertEqual('tiny', amphora.flavor)
        self.assertEqual(server['image']['id'], amphora.image_id)
        self.assertEqual('az3', amphora.availability_zone)
        self.assertEqual(
            (Address(address='10.64.1.15', mac='fa:16:3e:c1:8a:db'),), amphora.addresses
        )
        self.assertEqual({}, amphora.metadata)
        # 2026-11-21T08:37:42Z
        self.assertEqual(1_795_250_262.0, amphora.created_at)
        self.assertIsNone(amphora.fault)
        self.assertEqual(translate.status_of(server, NOW), amphora.status(NOW))

    def test_an_amphora_has_flavor_and_image_as_they_were_requested(self):
        server = copy.deepcopy(SERVERS['active'])
        server['metadata'] = {
            'kiln:flavor': 'small', 'kiln:image': 'tag:amphora', 'kiln:group': 'g-1',
            'kiln:type': 'vm', 'tier': 'gold',
        }  # fmt: skip
        amphora = translate.amphora_of(server)
        self.assertEqual(
            ('small', 'tag:amphora', 'g-1'),
            (amphora.flavor, amphora.image_id, amphora.server_group_id),
        )
        self.assertEqual({'tier': 'gold'}, amphora.metadata)

    def test_a_server_with_a_boot_volume_has_no_image(self):
        # Nova returns an empty string there, not an empty mapping.
        self.assertIsNone(translate.amphora_of(SERVERS['active'] | {'image': ''}).image_id)

    def test_an_unknown_type_is_a_vm(self):
        server = SERVERS['active'] | {'metadata': {'kiln:type': 'tank'}}
        self.assertIs(AmphoraType.VM, translate.amphora_of(server).amphora_type)
        server = SERVERS['active'] | {'metadata': {'kiln:type': 'bare_metal'}}
        self.assertIs(AmphoraType.BARE_METAL, translate.amphora_of(server).amphora_type)

    def test_a_fault_has_its_error_code(self):
        for translated in (
            translate.amphora_of(SERVERS['no_valid_host']),
            translate.status_of(SERVERS['no_valid_host'], NOW),
        ):
            self.assertEqual('No valid host was found. ', translated.fault)
            self.assertEqual(InsufficientCapacity.code, translated.fault_code)

    def test_a_fault_without_a_message_is_still_a_fault(self):
        self.assertEqual('no reason given', translate.fault_of({'fault': {'code': 500}}))
        self.assertIsNone(translate.fault_of({'fault': None}))

    def test_a_foreign_tag_is_not_a_build_key(self):
        for tags in (None, [], ['web'], ['kiln-key'], ['my-kiln-key:7']):
            with self.subTest(tags):
                self.assertIsNone(translate.key_of({'tags': tags}))
        tags = ['a', 'kiln-site:east', 'kiln-key:a:b']
        self.assertEqual('a:b', translate.key_of({'tags': tags}))
        self.assertEqual('east', translate.owner_of({'tags': tags}))


class Raw(unittest.TestCase):
    def test_the_raw_answer_is_novas_own(self):
        server = SERVERS['active']
        self.assertEqual(server, translate.amphora_of(server).raw)
        self.assertEqual(server, translate.status_of(server, NOW).raw)

    def test_user_data_is_left_out_of_it(self):
        server = SERVERS['admin_view_user_data']
        sent = server['OS-EXT-SRV-ATTR:user_data']
        self.assertTrue(sent)
        for raw in (translate.amphora_of(server).raw, translate.status_of(server, NOW).raw):
            self.assertNotIn(sent, json.dumps(dict(raw)))
            self.assertEqual(len(server) - 1, len(raw))


class Moments(unittest.TestCase):
    def test_a_timestamp_of_nova_or_neutron_becomes_seconds_in_utc(self):
        for moment in (
            '2023-11-14T22:13:20Z', '2023-11-14T22:13:20.000000', '2023-11-14T22:13:20',
            '2023-11-14T23:13:20+01:00',
        ):  # fmt: skip
            with self.subTest(moment):
                self.assertEqual(NOW, translate.seconds_of(moment))

    def test_a_missing_timestamp_is_none(self):
        for moment in (None, '', 'yesterday'):
            self.assertIsNone(translate.seconds_of(moment))

    def test_a_timestamp_for_a_filter_has_whole_seconds(self):
        self.assertEqual('2023-11-14T22:13:20Z', translate.moment_of(NOW + 0.999))

    @given(st.integers(0, 4_000_000_000))
    def test_timestamps_survive_a_round_trip(self, seconds):
        self.assertEqual(seconds, translate.seconds_of(translate.moment_of(seconds)))


class Others(unittest.TestCase):
    def test_an_interface_is_an_attachment(self):
        interface = {
            'port_id': 'p-1', 'net_id': 'n-1', 'port_state': 'ACTIVE',
            'fixed_ips': [{'ip_address': '10.0.0.7', 'subnet_id': 's'}],
        }  # fmt: skip
        expected = Attachment(
            amphora_id='a-1', port_id='p-1', network_id='n-1', addresses=('10.0.0.7',),
            subnet_ids=('s',),
        )  # fmt: skip
        self.assertEqual(expected, translate.attachment_of('a-1', interface))
        bare = translate.attachment_of('a-1', {'port_id': 'p-1', 'fixed_ips': None})
        self.assertEqual((None, ()), (bare.network_id, bare.addresses))

    def test_addresses_have_network_ids_if_the_interfaces_are_known(self):
        network = [
            {'addr': '10.0.0.7', 'OS-EXT-IPS-MAC:mac_addr': 'm-1'},
            {'addr': '10.1.0.9', 'OS-EXT-IPS-MAC:mac_addr': 'm-2'},
            {'addr': '10.2.0.9', 'OS-EXT-IPS-MAC:mac_addr': 'm-3'},
        ]
        amphora = translate.amphora_of({'id': 'a-1', 'addresses': {'same-name': network}})
        interfaces = [
            {'port_id': 'p-2', 'net_id': 'n-2', 'mac_addr': 'm-2', 'fixed_ips': []},
            {'port_id': 'p-1', 'net_id': 'n-1', 'mac_addr': 'm-1', 'fixed_ips': []},
        ]
        found = translate.placed_on(amphora, interfaces)
        self.assertEqual(
            [('10.0.0.7', 'n-1', 'p-1'), ('10.1.0.9', 'n-2', 'p-2'), ('10.2.0.9', None, None)],
            [(one.address, one.network_id, one.port_id) for one in found.addresses],
        )

    def test_every_address_of_both_families_is_kept_and_those_of_one_port_are_together(self):
        # The order of Nova: the fixed addresses of all ports on a network, then the floating.
        def row(address, mac, kind='fixed'):
            version = 6 if ':' in address else 4
            return {'addr': address, 'version': version, 'OS-EXT-IPS:type': kind,
                    'OS-EXT-IPS-MAC:mac_addr': mac}  # fmt: skip

        first = [
            row('fd00::7', 'm-1'), row('10.0.0.7', 'm-1'), row('fd00::8', 'm-2'),
            row('192.0.2.7', 'm-1', 'floating'), row('192.0.2.8', 'm-2', 'floating'),
        ]  # fmt: skip
        server = {'id': 'a-1', 'addresses': {'first': first, 'second': [row('10.9.0.9', 'm-3')]}}
        amphora = translate.amphora_of(server)
        self.assertEqual(
            [('fd00::7', 'm-1'), ('10.0.0.7', 'm-1'), ('192.0.2.7', 'm-1'), ('fd00::8', 'm-2'),
             ('192.0.2.8', 'm-2'), ('10.9.0.9', 'm-3')],
            [(one.address, one.mac) for one in amphora.addresses],
        )  # fmt: skip
        self.assertEqual('10.0.0.7', amphora.address)
        server['addresses']['first'] = [row('fd00::7', 'm-1'), row('2001:db8::7', 'm-1')]
        self.assertEqual('fd00::7', translate.amphora_of(server).address)

    def test_a_group_has_a_policy_before_and_after_2_64(self):
        new = {'id': 'g', 'name': 'web', 'policy': 'anti-affinity', 'rules': {}, 'members': ['s']}
        old = {'id': 'g', 'name': 'web', 'policies': ['anti-affinity'], 'members': ['s']}
        self.assertEqual(translate.group_of(new), translate.group_of(old))
        group = translate.group_of(new)
        self.assertEqual(('g', 'web', 'anti-affinity', ('s',)), (
            group.id, group.name, group.policy, group.member_ids,
        ))  # fmt: skip


_KEYS = sorted({key for server in SERVERS.values() for key in server if key != 'id'})


def thinned(server, choose):
    """Return JSON without the chosen fields, at any depth."""
    if isinstance(server, dict):
        return {
            key: thinned(value, choose)
            for key, value in server.items()
            if key == 'id' or choose() < 3
        }
    if isinstance(server, list):
        return [thinned(value, choose) for value in server if choose() < 3]
    return None if choose() == 0 and not isinstance(server, str) else server


class Whatever(unittest.TestCase):
    @given(st.data(), st.sampled_from(sorted(SERVERS)))
    def test_a_server_with_any_field_missing_is_translated(self, data, name):
        draws = iter(data.draw(st.lists(st.integers(0, 3), min_size=120, max_size=120)))
        server = thinned(SERVERS[name], lambda: next(draws, 1))
        server['id'] = SERVERS[name]['id']
        amphora, status = translate.amphora_of(server), translate.status_of(server, NOW)
        self.assertEqual(server['id'], amphora.id)
        self.assertEqual(status, amphora.status(NOW))

    @given(st.sets(st.sampled_from(_KEYS)), st.sampled_from(sorted(SERVERS)))
    def test_a_server_with_any_field_empty_is_translated(self, empty, name):
        for nothing in (None, ''):
            server = SERVERS[name] | dict.fromkeys(empty, nothing)
            self.assertEqual(server['id'], translate.amphora_of(server).id)

    @given(
        st.dictionaries(st.sampled_from(['OS-EXT-SRV-ATTR:user_data', *_KEYS]), st.text()),
        st.text(min_size=1),
    )
    def test_user_data_is_never_in_raw(self, server, sent):
        server |= {'id': 's-1', 'OS-EXT-SRV-ATTR:user_data': sent}
        for key in ('metadata', 'addresses', 'flavor', 'image', 'tags', 'fault'):
            server.pop(key, None)
        self.assertNotIn('OS-EXT-SRV-ATTR:user_data', translate.amphora_of(server).raw)
        self.assertNotIn('OS-EXT-SRV-ATTR:user_data', translate.status_of(server, NOW).raw)


if __name__ == '__main__':
    unittest.main()
