"""Flavors and images of builds, and what Ironic gets of them."""

import unittest

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic import wanted
from kiln.compute_drivers.validation import build_request
from kiln.exceptions import InvalidBuildRequest, InvalidRequest
from kiln.models import AmphoraType, Limits
from tests.unit.compute_drivers.ironic.test_states import claim

BUILD = Asked(verb='build', subject='web-1', build_key='k1')
USE = Asked.of('use image', 'x')
LIMITS = Limits(amphora_types=frozenset(AmphoraType))
SHA = 'a' * 64


def drive(**given):
    request = build_request(LIMITS, {'name': 'Web 1', 'build_key': 'k1', **given}, owner='site')
    return wanted.config_drive(BUILD, request, claim(zone='az1'))


class Flavors(unittest.TestCase):
    def test_a_flavor_is_a_resource_class_and_traits(self):
        self.assertEqual(
            wanted.Flavor(resource_class='big iron', traits=('CUSTOM_GPU', 'HW_CPU_X86_VMX')),
            wanted.flavor_of(BUILD, 'big iron+CUSTOM_GPU+HW_CPU_X86_VMX+CUSTOM_GPU'),
        )

    def test_what_is_no_flavor_is_refused(self):
        for name in ('+CUSTOM_GPU', 'big+', 'big+gpu', 'x' * 81):
            with self.subTest(name), self.assertRaisesRegex(InvalidBuildRequest, 'flavor'):
                wanted.flavor_of(BUILD, name)


class Images(unittest.TestCase):
    def test_the_checksum_of_an_image_is_in_its_fragment(self):
        for fragment, checks in (
            ('', {}),
            (f'#sha512={SHA}', {'image_os_hash_algo': 'sha512', 'image_os_hash_value': SHA}),
            ('#checksums=https://a/SUMS', {'image_checksum': 'https://a/SUMS'}),
        ):
            found = wanted.image_at(BUILD, f'https://a/image.raw{fragment}')
            self.assertEqual(('https://a/image.raw', checks), (found.source, dict(found.checks)))

    def test_a_fragment_that_is_no_checksum_is_refused(self):
        for fragment in ('md5=x', 'sha256=xyz', f'sha1={SHA}', 'checksums=SUMS', 'x'):
            with self.subTest(fragment), self.assertRaisesRegex(InvalidRequest, 'sha256=DIGEST'):
                wanted.image_at(USE, f'https://a/image.raw#{fragment}')

    def test_a_partition_image_has_the_size_of_its_root(self):
        image, flavor = wanted.image_at(BUILD, 'https://a/b'), wanted.flavor_of(BUILD, 'metal')
        sent = wanted.instance_info(claim(name='web-1'), image, flavor, 10)
        facts = {one['path'].rpartition('/')[2]: one['value'] for one in sent}
        self.assertEqual((10, 'partition'), (facts['root_gb'], facts['image_type']))
        self.assertEqual('web-1', facts['display_name'])


class ConfigDrives(unittest.TestCase):
    def test_it_names_the_machine_and_has_its_keys(self):
        data = drive(keys=['ssh-ed25519 AAAA one'], metadata={'a': 'b'})['meta_data']
        self.assertEqual(('a-1', 'Web 1', 'web-1'), (data['uuid'], data['name'], data['hostname']))
        self.assertEqual({'key-0': 'ssh-ed25519 AAAA one'}, data['public_keys'])
        self.assertEqual(({'a': 'b'}, 'az1'), (data['meta'], data['availability_zone']))

    def test_without_user_data_it_has_none(self):
        self.assertNotIn('user_data', drive())

    def test_user_data_that_is_text_is_passed_as_it_is(self):
        self.assertEqual('#!/bin/sh\n', drive(user_data='#!/bin/sh\n')['user_data'])

    def test_user_data_that_is_no_text_is_encoded(self):
        self.assertIn('base64', drive(user_data=b'\x1f\x8b\x00\xff')['user_data'])

    def test_large_content_is_not_compressed_as_a_whole(self):
        files = {f'/etc/{n}': bytes(range(256)) * 40 for n in range(5)}
        self.assertTrue(drive(config_drive_files=files)['user_data'].startswith('MIME-Version'))

    def test_a_message_with_parts_that_are_no_text_is_refused(self):
        with self.assertRaisesRegex(InvalidBuildRequest, 'base64'):
            drive(user_data=b'MIME-Version: 1.0\n\n\xff\xfe')
