"""Options of a Nova backend as written in a file."""

import unittest

from oslo_config import cfg

from kiln.compute_drivers.nova.conf import opts
from kiln.conf import compute
from kiln.exceptions import ConfigurationError
from kiln.openstack.identity import AUTH_TYPES
from tests.unit.compute_drivers.nova.written import written

NAMES = {opt.dest: opt for opt in opts}


class Options(unittest.TestCase):
    def test_no_option_is_defined_twice_or_shadows_kilns_own(self):
        self.assertEqual(len(NAMES), len(opts))
        self.assertEqual(set(), NAMES.keys() & {opt.dest for opt in compute.BACKEND_OPTS})

    def test_every_option_has_a_help_text(self):
        for opt in opts:
            with self.subTest(opt.dest):
                self.assertTrue((opt.help or '').strip())

    def test_secrets_are_never_shown(self):
        for dest in (
            'password', 'token', 'application_credential_secret', 'passcode', 'client_secret',
            'access_token',
        ):  # fmt: skip
            with self.subTest(dest):
                self.assertTrue(NAMES[dest].secret)

    def test_the_options_are_those_of_keystoneauth(self):
        for dest in (
            'auth_url', 'username', 'user_domain_name', 'project_name', 'project_domain_name',
            'system_scope', 'trust_id', 'application_credential_id', 'identity_provider',
            'cafile', 'certfile', 'keyfile', 'insecure',
        ):  # fmt: skip
            with self.subTest(dest):
                self.assertIn(dest, NAMES)

    def test_options_with_another_meaning_here_are_left_out(self):
        # Each service has its own endpoint override, and kiln has its own timeouts.
        for dest in ('endpoint', 'collect_timing', 'split_loggers'):
            with self.subTest(dest):
                self.assertNotIn(dest, NAMES)
        self.assertIsInstance(NAMES['timeout'], cfg.FloatOpt)

    def test_the_auth_types_are_listed(self):
        for name in AUTH_TYPES:
            self.assertIn(name, NAMES['auth_type'].help)

    def test_the_defaults_are_those_of_a_plain_site(self):
        conf = written()
        self.assertEqual('password', conf.auth_type)
        self.assertEqual(['internal', 'public'], conf.valid_interfaces)
        self.assertEqual((60.0, 10.0, 500), (conf.timeout, conf.connect_timeout, conf.page_size))
        self.assertEqual('auto', conf.file_injection)
        self.assertIs(False, conf.port_lock)
        for dest in ('cloud', 'flavor', 'image', 'microversion', 'region_name'):
            self.assertIsNone(getattr(conf, dest))

    def test_written_values_are_read(self):
        conf = written(
            'valid_interfaces = public',
            'networks = n-1, n-2=10.0.0.7',
            'microversion = 2.90',
            'boot_volume_size = 8',
            'user_domain_id = default',
            'port_lock = true',
        )
        self.assertEqual(['public'], conf.valid_interfaces)
        self.assertEqual(['n-1', 'n-2=10.0.0.7'], conf.networks)
        self.assertEqual('2.90', conf.microversion)
        self.assertEqual((8, 'default', True), (
            conf.boot_volume_size, conf.user_domain_id, conf.port_lock,
        ))  # fmt: skip

    def test_invalid_values_are_refused_with_their_option(self):
        for option, value in (
            ('microversion', 'latest'),
            ('microversion', '3.1'),
            ('timeout', '0'),
            ('connect_timeout', 'never'),
            ('page_size', '1001'),
            ('page_size', '0'),
            ('catalogue_ttl', '-1'),
            ('boot_volume_size', '0'),
            ('file_injection', 'ssh'),
        ):
            with (
                self.subTest(option, value=value),
                self.assertRaisesRegex(ConfigurationError, rf'option \[compute:east\] {option}: '),
            ):
                written(f'{option} = {value}')


if __name__ == '__main__':
    unittest.main()
