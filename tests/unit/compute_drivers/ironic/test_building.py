"""What a build sends to Ironic: flavors, images, names and config drives."""

import json
import unittest

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.user_data import textual
from kiln.compute_drivers.ironic.building.claims import name_of
from kiln.compute_drivers.ironic.building.config_drive import config_drive, hostname
from kiln.compute_drivers.ironic.building.flavors import IMAGE_FIELDS, Flavor, image_info
from kiln.compute_drivers.ironic.translate import image_of
from kiln.exceptions import InvalidBuildRequest, InvalidRequest
from kiln.models import BuildRequest, InjectedFile

ASKED = Asked(verb='build', subject='web-1', build_key='k-1')
UUID = '0f0c2c8e-3a6f-4a3c-9c53-3a1f1a9f7a10'
DIGEST = 'Ab' * 32


def request(**more):
    return BuildRequest(build_key='k-1', name='web-1', owner='site', **more)


class Flavors(unittest.TestCase):
    def test_a_flavor_is_a_resource_class_and_its_traits(self):
        read = Flavor.read(ASKED, 'bm.large+HW_B+CUSTOM_A')
        self.assertEqual(Flavor(resource_class='bm.large', traits=('CUSTOM_A', 'HW_B')), read)
        self.assertEqual('bm.large+CUSTOM_A+HW_B', str(read))

    def test_a_flavor_of_another_form_is_refused(self):
        for text, said in (
            ('+CUSTOM_A', 'does not begin with a resource class'),
            ('x' * 81, 'does not begin with a resource class'),
            ('bm+gpu', "'gpu' in flavor 'bm\\+gpu' is not a trait"),
            ('bm+', 'is not a trait'),
        ):
            with self.assertRaisesRegex(InvalidRequest, said):
                Flavor.read(ASKED, text)

    def test_a_node_fits_with_the_class_and_all_the_traits(self):
        wanted = Flavor(resource_class='bm', traits=('A', 'B'))
        self.assertTrue(wanted.fits({'resource_class': 'bm', 'traits': ['B', 'C', 'A']}))
        self.assertFalse(wanted.fits({'resource_class': 'bm', 'traits': ['A']}))
        self.assertFalse(wanted.fits({'resource_class': 'other', 'traits': ['A', 'B']}))
        self.assertTrue(Flavor(resource_class='bm').fits({'resource_class': 'bm'}))


class Images(unittest.TestCase):
    def test_an_image_of_glance_is_its_id(self):
        self.assertEqual({'image_source': UUID}, image_info(ASKED, UUID))

    def test_an_image_at_a_url_has_its_digest(self):
        self.assertEqual(
            {
                'image_source': 'https://h/i.qcow2',
                'image_os_hash_algo': 'sha256',
                'image_os_hash_value': DIGEST.lower(),
            },
            image_info(ASKED, f'https://h/i.qcow2#sha256={DIGEST}'),
        )

    def test_an_image_without_a_digest_is_refused(self):
        for text in (
            'https://h/i', 'https://h/i#sha256=', f'https://h/i#sha512={DIGEST}',
            f'https://h/i#sha256={DIGEST[:-1]}x', f'https://h/i#crc={DIGEST}',
        ):  # fmt: skip
            with self.subTest(text), self.assertRaisesRegex(InvalidBuildRequest, 'has no digest'):
                image_info(ASKED, text, InvalidBuildRequest)

    def test_an_iso_is_a_url_without_a_digest(self):
        self.assertEqual(
            {'boot_iso': 'https://h/live.iso'}, image_info(ASKED, 'https://h/live.iso')
        )

    def test_a_digest_of_an_iso_is_refused_as_nobody_checks_it(self):
        text = f'https://h/live.iso#sha256={DIGEST}'
        with self.assertRaisesRegex(InvalidBuildRequest, 'none of an ISO: leave it out'):
            image_info(ASKED, text, InvalidBuildRequest)

    def test_what_is_written_for_an_image_is_read_as_this_image(self):
        for text in (UUID, f'https://h/i#sha256={DIGEST.lower()}', 'oci://h/i', 'https://h/i.iso'):
            with self.subTest(text):
                self.assertEqual(text, image_of(image_info(ASKED, text)))
                self.assertLessEqual(set(image_info(ASKED, text)), set(IMAGE_FIELDS))

    def test_an_image_that_is_only_a_name_is_refused(self):
        with self.assertRaisesRegex(InvalidRequest, 'neither the id .* nor a URL'):
            image_info(ASKED, 'debian-12')


class Names(unittest.TestCase):
    def test_a_claim_has_one_name_for_each_owner_and_key(self):
        names = {name_of(owner, key) for owner in ('s', 'S', 'sk') for key in ('k', 'K', 'kk')}
        self.assertEqual(9, len(names))
        # Also where a database compares without regard to capitals.
        self.assertEqual(9, len({name.lower() for name in names}))
        self.assertEqual(name_of('s', 'k'), name_of('s', 'k'))
        self.assertNotEqual(name_of('a', 'b-c'), name_of('a-b', 'c'))

    def test_a_host_name_is_made_of_any_name(self):
        for name, host in (
            ('web-1', 'web-1'), ('Web 1.a', 'web-1-a'), ('名前', 'amphora'), ('-a-', 'a'),
            ('x' * 70, 'x' * 63),
        ):  # fmt: skip
            self.assertEqual(host, hostname(name))


class Drives(unittest.TestCase):
    def test_metadata_and_keys_are_in_the_metadata(self):
        drive = config_drive(
            request(metadata={'role': 'web'}, keys=('ssh-ed25519 A a', 'ssh-ed25519 B b')),
            UUID, zone='r1',
        )  # fmt: skip
        self.assertEqual(
            {
                'uuid': UUID,
                'name': 'web-1',
                'hostname': 'web-1',
                'meta': {'role': 'web'},
                'public_keys': {'key-0': 'ssh-ed25519 A a', 'key-1': 'ssh-ed25519 B b'},
                'availability_zone': 'r1',
            },
            drive['meta_data'],
        )
        self.assertNotIn('user_data', drive)

    def test_user_data_of_text_stays_as_it_is(self):
        text = '#!/bin/sh\necho Grüße\n'
        drive = config_drive(request(user_data=text.encode()), UUID, zone=None)
        self.assertEqual(text, drive['user_data'])

    def test_files_are_in_the_user_data(self):
        files = (InjectedFile(path='/etc/motd', content=b'hello'),)
        drive = config_drive(request(user_data=b'#!/bin/sh\n', files=files), UUID, zone=None)
        self.assertIn('write_files', drive['user_data'])
        self.assertIn('/etc/motd', drive['user_data'])

    def test_any_user_data_and_files_become_text(self):
        files = tuple(
            InjectedFile(path=f'/etc/{at}', content=bytes(range(256)) * 40) for at in range(5)
        )
        for content in (b'\x1f\x8b\x00', bytes(range(256)), b'#' * 49_149):
            drive = config_drive(request(user_data=content, files=files), UUID, zone=None)
            self.assertEqual(drive, json.loads(json.dumps(drive)))
            self.assertIn('Content-Type: multipart/mixed', drive['user_data'])


class Textual(unittest.TestCase):
    def test_text_stays_as_it_is(self):
        for text in ('', '#!/bin/sh\n', 'Grüße'):
            self.assertEqual(text.encode(), textual(text.encode()))

    def test_anything_else_becomes_a_message_that_has_it(self):
        message = textual(bytes(range(256)))
        self.assertTrue(message.isascii())
        self.assertIn(b'Content-Transfer-Encoding: base64', message)
