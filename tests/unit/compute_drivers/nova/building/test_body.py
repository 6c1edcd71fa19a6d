"""Request body of a server create, and the size of its content."""

import base64
import gzip
import random
import types
import unittest

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_networks import NO_NETWORK, check_networks
from kiln.compute_drivers.authoring.user_data import MAX_BYTES
from kiln.compute_drivers.nova.building import body
from kiln.exceptions import (
    InvalidBuildRequest,
    Outcome,
    UnsupportedOperation,
    UserDataTooLarge,
    Verdict,
)
from kiln.models import BuildRequest, InjectedFile

ASKED = Asked(verb='build', subject='web-1', build_key='k-1')
CHOSEN = body.Chosen(
    flavor_id='f-1', image_id='i-1', networks=(), security_groups=(), availability_zone=None,
    key_name=None, content=body.Content(user_data=None),
)  # fmt: skip
#: The options of a plain site.
PLAIN = {
    'boot_volume_size': None, 'boot_volume_type': None, 'config_drive': False,
    'hostname_domain': None,
}  # fmt: skip
KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB ops@east'


def request(**more):
    return BuildRequest(build_key='k-1', name='web-1', owner='east', **more)


def chosen(**more):
    facts = {name: getattr(CHOSEN, name) for name in CHOSEN.__slots__}
    return body.Chosen(**(facts | more))


def created(wanted=None, of=CHOSEN, *, ports=(), networks=(), version='2.96', **options):
    """Return the body of a build."""
    return body.create_body(
        ASKED,
        wanted or request(),
        of,
        types.SimpleNamespace(**PLAIN | options),
        ports=ports,
        networks=networks,
        version=version,
    )


class Create(unittest.TestCase):
    def test_a_minimal_request_has_a_minimal_body(self):
        self.assertEqual(
            {
                'server': {
                    'name': 'web-1',
                    'flavorRef': 'f-1',
                    'imageRef': 'i-1',
                    'networks': 'auto',
                    'tags': ['kiln-site:east', 'kiln-key:k-1'],
                    'metadata': {'kiln:type': 'vm'},
                }
            },
            created(),
        )

    def test_the_network_none_is_no_network(self):
        self.assertEqual('none', created(networks=NO_NETWORK)['server']['networks'])

    def test_the_network_none_excludes_other_networks_and_ports(self):
        for networks, ports in (('none', 'n-1'), ()), (('none',), ('p-1',)):
            with self.subTest(networks=networks), self.assertRaises(InvalidBuildRequest) as caught:
                check_networks(ASKED, networks, ports)
            self.assertIn("network 'none' excludes", str(caught.exception))
        for networks, ports in ((), ()), (('none',), ()), (('n-1', 'n-2'), ('p-1',)):
            check_networks(ASKED, networks, ports)

    def test_a_full_request_sets_every_field(self):
        sent = created(
            request(
                metadata={'tier': 'gold'}, flavor='small', image_id='tag:amphora',
                server_group_id='g-1',
            ),
            chosen(
                security_groups=('web', 'ssh'), availability_zone='az1', key_name='ops',
                content=body.Content(user_data=b'#!/bin/sh\n'),
            ),
            ports=['p-1', 'p-2'], networks=['n-1', 'n-2=10.0.0.7'], config_drive=True,
            hostname_domain='example.org',
        )  # fmt: skip
        self.assertEqual({'group': 'g-1'}, sent['os:scheduler_hints'])
        server = sent['server']
        self.assertEqual(
            {
                'tier': 'gold', 'kiln:type': 'vm', 'kiln:flavor': 'small',
                'kiln:image': 'tag:amphora', 'kiln:group': 'g-1',
            },
            server['metadata'],
        )  # fmt: skip
        self.assertEqual(
            [
                {'port': 'p-1'}, {'port': 'p-2'}, {'uuid': 'n-1'},
                {'uuid': 'n-2', 'fixed_ip': '10.0.0.7'},
            ],
            server['networks'],
        )  # fmt: skip
        self.assertEqual([{'name': 'web'}, {'name': 'ssh'}], server['security_groups'])
        self.assertEqual(('az1', 'ops'), (server['availability_zone'], server['key_name']))
        self.assertEqual(b'#!/bin/sh\n', base64.b64decode(server['user_data']))
        self.assertIs(True, server['config_drive'])
        self.assertEqual('web-1.example.org', server['hostname'])

    def test_reserved_metadata_cannot_be_overridden(self):
        sent = created(request(metadata={'kiln:type': 'tank'}))
        self.assertEqual({'kiln:type': 'vm'}, sent['server']['metadata'])

    def test_a_tag_is_no_longer_than_nova_allows(self):
        longest = BuildRequest(build_key='k' * 48, name='n', owner='o' * 32)
        for tag in created(longest)['server']['tags']:
            self.assertLessEqual(len(tag), 60)

    def test_personality_forces_a_config_drive(self):
        files = ({'path': '/a', 'contents': 'eA=='},)
        content = body.Content(user_data=None, personality=files)
        server = created(of=chosen(content=content), version=body.PERSONALITY)['server']
        self.assertEqual(list(files), server['personality'])
        self.assertIs(True, server['config_drive'])


class Versions(unittest.TestCase):
    def test_a_microversion_is_compared_by_its_number(self):
        self.assertTrue(body.at_least('2.67', 67))
        self.assertTrue(body.at_least('2.100', 67))
        self.assertFalse(body.at_least('2.9', 67))

    def test_a_volume_type_needs_2_67(self):
        def volume(version):
            server = created(version=version, boot_volume_size=8, boot_volume_type='ssd')
            return server['server']['block_device_mapping_v2'][0]

        self.assertEqual('ssd', volume('2.67')['volume_type'])
        with self.assertRaisesRegex(
            UnsupportedOperation, r'boot_volume_type needs microversion 2\.67 .* 2\.66 is in use'
        ):
            volume('2.66')

    def test_the_default_volume_type_needs_no_microversion(self):
        server = created(version='2.52', boot_volume_size=8)['server']
        self.assertEqual(
            [
                {
                    'boot_index': 0, 'uuid': 'i-1', 'source_type': 'image',
                    'destination_type': 'volume', 'volume_size': 8,
                    'delete_on_termination': True,
                }
            ],
            server['block_device_mapping_v2'],
        )  # fmt: skip
        self.assertNotIn('imageRef', server)

    def test_a_build_without_an_image_sends_none(self):
        self.assertNotIn('imageRef', created(of=chosen(image_id=None))['server'])

    def test_a_host_name_needs_2_94(self):
        server = created(version='2.94', hostname_domain='example.org')['server']
        self.assertEqual('web-1.example.org', server['hostname'])
        with self.assertRaises(UnsupportedOperation) as caught:
            created(version='2.93', hostname_domain='example.org')
        self.assertEqual(
            'Cannot build web-1: hostname_domain needs microversion 2.94 of Nova; 2.93 is in use.',
            str(caught.exception),
        )
        self.assertIs(Outcome.NOT_APPLIED, caught.exception.outcome)
        self.assertNotIn('hostname', created(version='2.93')['server'])

    def test_any_server_name_gives_a_valid_host_name(self):
        for name, label in (
            ('web 1', 'web-1'),
            ('größe', 'gr--e'),
            ('_web_', 'web'),
            ('負荷', 'server'),
            ('a' * 70, 'a' * 63),
            ('a' * 62 + ' b', 'a' * 62),
        ):
            with self.subTest(name):
                wanted = BuildRequest(build_key='k', name=name, owner='east')
                server = created(wanted, hostname_domain='example.org')['server']
                self.assertEqual(f'{label}.example.org', server['hostname'])


def files(contents, mode=0o644, owner='root'):
    return tuple(
        InjectedFile(path=f'/etc/{i}', content=content, mode=mode, owner=owner)
        for i, content in enumerate(contents)
    )


def config(size):
    """Return content like configuration files: repetitive text."""
    lines = b''.join(b'server web%d 10.0.0.%d:80 check\n' % (i, i) for i in range(4))
    return (lines * (size // len(lines) + 1))[:size]


def pem(size, draw):
    """Return content like keys and certificates: random base64."""
    lines = base64.encodebytes(draw.randbytes(size))
    return (b'-----BEGIN X-----\n' + lines)[:size]


KIB = 1024
DRAW = random.Random(7)
CONFIGS = [config(10 * KIB)] * 5
OCTAVIA = [pem(4 * KIB, DRAW), pem(4 * KIB, DRAW), config(3 * KIB), config(3 * KIB)]
PEMS = [pem(10 * KIB, DRAW) for _ in range(5)]
NOISE = [DRAW.randbytes(10 * KIB) for _ in range(5)]


class BytesOnTheWire(unittest.TestCase):
    """Content that fits into the 65,535 characters that Nova allows."""

    def content(self, how='auto', *, contents, **more):
        wanted = request(files=files(contents, **more))
        return body.content_of(ASKED, wanted, (), how)

    def test_files_that_fit_are_sent_in_user_data(self):
        # Five files of ten KiB in plain base64 are 91,372 characters.
        for name, contents, about in (
            ('5 x 10 KiB of configuration', CONFIGS, 2_000),
            ('2 x 4 KiB of PEM and 2 x 3 KiB of configuration', OCTAVIA, 12_000),
            ('5 x 10 KiB of PEM', PEMS, 53_000),
        ):
            for mode in (0o644, 0o600):
                for how in ('auto', 'user_data'):
                    with self.subTest(name, mode=mode, how=how):
                        found = self.content(how, contents=contents, mode=mode)
                        self.assertEqual((), found.personality)
                        wire = len(base64.b64encode(found.user_data))
                        self.assertLess(wire, 65_535)
                        self.assertLess(wire, about * 1.1)

    def test_keys_and_certificates_fit_only_when_compressed(self):
        found = self.content(contents=PEMS)
        self.assertTrue(found.user_data.startswith(b'\x1f\x8b'))
        self.assertGreater(len(gzip.decompress(found.user_data)), MAX_BYTES)

    def test_files_that_do_not_fit_become_personality(self):
        found = self.content(contents=NOISE)
        self.assertIsNone(found.user_data)
        self.assertEqual(
            [(f'/etc/{i}', content) for i, content in enumerate(NOISE)],
            [(one['path'], base64.b64decode(one['contents'])) for one in found.personality],
        )

    def test_user_data_and_keys_stay_in_user_data_when_files_become_personality(self):
        wanted = request(files=files(NOISE), user_data=b'#!/bin/sh\n')
        found = body.content_of(ASKED, wanted, (KEY,), 'auto')
        self.assertEqual(5, len(found.personality))
        self.assertIn(b'#!/bin/sh\n', found.user_data)
        self.assertIn(KEY.encode(), found.user_data)
        self.assertNotIn(b'write_files', found.user_data)

    def test_files_that_do_not_fit_are_refused_if_personality_cannot_set_their_mode(self):
        for more in ({'mode': 0o600}, {'owner': 'haproxy'}):
            with self.assertRaises(UserDataTooLarge) as caught:
                self.content(contents=NOISE, **more)
            self.assertRegex(
                str(caught.exception),
                r'^Cannot build web-1: user data, files and keys are 5\d{4} bytes when '
                r'compressed, and Nova allows 49149 \(user data 0, /etc/0 10240, /etc/1 10240, '
                r'/etc/2 10240, /etc/3 10240, /etc/4 10240\)\. Personality cannot set the mode '
                r'or the owner of /etc/0, /etc/1, /etc/2, /etc/3, /etc/4\.$',
            )

    def test_files_that_do_not_fit_are_refused_if_user_data_is_required(self):
        with self.assertRaises(UserDataTooLarge) as caught:
            self.content('user_data', contents=NOISE)
        self.assertNotIn('Personality', str(caught.exception))
        self.assertIs(Outcome.NOT_APPLIED, caught.exception.outcome)
        self.assertIs(Verdict.NEUTRAL, caught.exception.circuit)
        self.assertFalse(caught.exception.retryable)

    def test_user_data_that_leaves_no_room_for_keys_is_refused(self):
        wanted = request(user_data=random.Random(1).randbytes(MAX_BYTES))
        self.assertEqual(MAX_BYTES, len(body.content_of(ASKED, wanted, (), 'auto').user_data))
        for how in ('auto', 'user_data', 'personality'):
            with self.assertRaisesRegex(UserDataTooLarge, r'\(user data 49149\)\.$'):
                body.content_of(ASKED, wanted, (KEY,), how)

    def test_user_data_that_leaves_no_room_for_keys_is_refused_beside_personality(self):
        wanted = request(files=files(NOISE), user_data=random.Random(1).randbytes(MAX_BYTES))
        with self.assertRaises(UserDataTooLarge):
            body.content_of(ASKED, wanted, (KEY,), 'auto')

    def test_a_file_above_novas_quota_is_refused_before_any_request(self):
        found = self.content(contents=NOISE)
        # Nova's default quota is meant as bytes, but its check counts base64 characters.
        with self.assertRaises(UserDataTooLarge) as caught:
            body.check_personality(ASKED, found, 10_240)
        self.assertEqual(
            'Cannot build web-1: the files do not fit in user data, and as personality /etc/0 '
            'has 13656 characters of base64, while this Nova allows 10240.',
            str(caught.exception),
        )
        for enough in (13_656, -1):
            body.check_personality(ASKED, found, enough)
        body.check_personality(ASKED, body.Content(user_data=b'x'), 0)

    def test_personality_is_used_if_required(self):
        found = self.content('personality', contents=[b'x'])
        self.assertEqual(({'path': '/etc/0', 'contents': 'eA=='},), found.personality)
        self.assertIsNone(found.user_data)

    def test_required_personality_refuses_modes(self):
        with self.assertRaises(InvalidBuildRequest) as caught:
            self.content('personality', contents=[b'x'], mode=0o600)
        self.assertEqual(
            'Cannot build web-1: file_injection = personality cannot set the mode or the owner '
            'of /etc/0.',
            str(caught.exception),
        )

    def test_without_files_nothing_is_added(self):
        for how in ('auto', 'user_data', 'personality'):
            wanted = request(user_data=b'#!/bin/sh\n')
            found = body.content_of(ASKED, wanted, (), how)
            self.assertEqual(body.Content(user_data=b'#!/bin/sh\n'), found)
            self.assertEqual(
                body.Content(user_data=None), body.content_of(ASKED, request(), (), how)
            )


if __name__ == '__main__':
    unittest.main()
