"""Translation between Octavia's values and kiln's."""

import dataclasses
import unittest

from kiln.adapters.octavia import translate
from kiln.compute_drivers import validation
from kiln.models import Address, Amphora, Attachment, Limits, State


def amphora(**facts):
    return Amphora(**{'id': 'i-1', 'name': 'n', 'state': State.ACTIVE, **facts})


class Keys(unittest.TestCase):
    NAMES = (
        'amphora-3a9f1f86-3f3e-4c44-8f32-1f0e9a1e3a11', 'amphora_name', '-dash', 'ä', 'x' * 49, '',
    )  # fmt: skip

    def test_each_name_has_one_valid_build_key(self):
        keys = [translate.build_key(name) for name in self.NAMES]
        self.assertEqual(keys, [translate.build_key(name) for name in self.NAMES])
        self.assertEqual(len(self.NAMES), len(set(keys)))
        for key in keys:
            request = validation.build_request(Limits(), {'build_key': key}, owner='o')
            self.assertEqual(key, request.build_key)

    def test_octavias_name_is_the_build_key(self):
        self.assertEqual(self.NAMES[0], translate.build_key(self.NAMES[0]))


class Requests(unittest.TestCase):
    def test_random_names_have_the_requested_length_and_reveal_nothing(self):
        names = {translate.random_name(f'amphora-{one}', 12) for one in range(50)}
        self.assertEqual(50, len(names))
        for name in names:
            self.assertRegex(name, r'\Aa[A-Z0-9]{11}\Z')

    def test_a_repeated_build_has_the_same_random_name(self):
        names = {translate.random_name('amphora-1', 20) for _ in range(2)}
        self.assertEqual(1, len(names))

    def test_files_are_readable_only_by_root(self):
        given = translate.files({'/etc/octavia/certs/server.pem': 'KEY'})
        request = validation.build_request(Limits(), {'config_drive_files': given}, owner='o')
        (file,) = request.files
        self.assertEqual((b'KEY', 0o600, 'root'), (file.content, file.mode, file.owner))

    def test_no_files_stay_no_files(self):
        self.assertEqual({}, translate.files(None))

    def test_an_image_is_requested_by_its_tag_or_by_its_name(self):
        self.assertEqual('tag:amphora', translate.image('amphora', by_tag=True))
        self.assertEqual('amphora', translate.image('amphora', by_tag=False))
        self.assertIsNone(translate.image('', by_tag=True))
        self.assertIsNone(translate.image(None, by_tag=True))


class Answers(unittest.TestCase):
    def test_only_an_image_id_is_returned(self):
        for found, told in (
            ('7e0e5b6a-30b2-4e0b-9a0a-5a5d7a6f2b11', '7e0e5b6a-30b2-4e0b-9a0a-5a5d7a6f2b11'),
            ('tag:amphora', None),
            ('registry.example.org/lb/amphora@sha256:0123', None),
            (None, None),
        ):
            with self.subTest(found):
                self.assertEqual(told, translate.image_id(amphora(image_id=found)))

    def test_the_id_of_an_image_requested_by_tag_comes_from_novas_answer(self):
        for raw, told in (({'image': {'id': 'i-7'}}, 'i-7'), ({'image': ''}, None)):
            found = amphora(image_id='tag:amphora', raw=raw)
            self.assertEqual(told, translate.image_id(found))

    def test_states_are_those_that_octavia_compares(self):
        self.assertEqual('ACTIVE', translate.status(State.ACTIVE))
        self.assertEqual('ERROR', translate.status(State.ERROR))
        others = {translate.status(state) for state in State} - {'ACTIVE', 'ERROR'}
        self.assertEqual(len(State) - 2, len(others))

    def test_the_management_address_is_on_the_management_network(self):
        two = (
            Address(address='10.0.0.1', network_id='a'),
            Address(address='10.0.0.2', network_id='b'),
        )
        unnamed = (Address(address='10.0.0.3'), Address(address='10.0.0.4'))
        dual = tuple(
            Address(address=one, network_id='b', mac='m') for one in ('fd00::2', '10.2.0.2')
        )
        bare = tuple(dataclasses.replace(one, network_id=None) for one in dual)
        for addresses, networks, expected in (
            (two, ['b'], '10.0.0.2'),
            (two, ['b', 'a'], '10.0.0.1'),
            (two, ['c'], None),
            (two, [], '10.0.0.1'),
            (unnamed, ['b'], '10.0.0.3'),
            ((*unnamed, two[1]), ['b'], '10.0.0.2'),
            ((two[0], *dual), ['b'], '10.2.0.2'),
            ((two[0], dual[0]), ['b'], 'fd00::2'),
            (bare, ['b'], '10.2.0.2'),
            ((), ['b'], None),
            ((), [], None),
        ):
            with self.subTest(addresses=addresses, networks=networks):
                found = amphora(addresses=addresses)
                self.assertEqual(expected, translate.management_address(found, networks))

    def test_an_attachment_has_the_fields_that_network_drivers_read(self):
        attachment = Attachment(
            amphora_id='i-1', port_id='p', network_id='n', addresses=('10.0.0.1', '10.1.0.1'),
            subnet_ids=('s1', 's2'),
        )  # fmt: skip
        interface = translate.Interface.of(attachment)
        self.assertEqual(('p', 'n'), (interface.port_id, interface.net_id))
        self.assertEqual(
            [
                {'subnet_id': 's1', 'ip_address': '10.0.0.1'},
                {'subnet_id': 's2', 'ip_address': '10.1.0.1'},
            ],
            interface.fixed_ips,
        )

    def test_a_backend_without_subnets_still_has_addresses(self):
        interface = translate.Interface.of(
            Attachment(amphora_id='i-1', port_id='p', addresses=('10.0.0.1',))
        )
        self.assertEqual([{'subnet_id': None, 'ip_address': '10.0.0.1'}], interface.fixed_ips)
