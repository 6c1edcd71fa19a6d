"""Options of octavia.conf as defaults of kiln's drivers."""

import unittest

from oslo_config import cfg

from kiln.adapters.octavia import settings

#: The options of Octavia that the translation reads, with their defaults.
OCTAVIA = {
    'nova': {
        'endpoint': None, 'region_name': None, 'endpoint_type': 'publicURL',
        'ca_certificates_file': None, 'insecure': False, 'service_name': None,
    },
    'glance': {'endpoint': None},
    'neutron': {'endpoint_override': None},
    'controller_worker': {'amp_image_owner_id': '', 'volume_driver': 'volume_noop_driver'},
    'cinder': {'volume_size': 16, 'volume_type': None, 'availability_zone': None},
    'service_auth': {
        'auth_section': None, 'cafile': None, 'certfile': None, 'keyfile': None,
        'insecure': False, 'timeout': None,
    },
}  # fmt: skip


def octavia_conf(**groups):
    """Return a configuration with Octavia's options; ``nova={...}`` changes or adds some."""
    conf = cfg.ConfigOpts()
    for group in OCTAVIA.keys() | groups.keys():
        for name, value in (OCTAVIA.get(group, {}) | groups.get(group, {})).items():
            conf.register_opt(cfg.Opt(name, type=lambda given: given, default=value), group)
    return conf


class Nova(unittest.TestCase):
    def defaults(self, auth=(), **groups):
        return settings.nova_defaults(octavia_conf(**groups), auth)

    def test_unset_options_of_octavia_stay_unset(self):
        self.assertEqual({'valid_interfaces': ['public'], 'config_drive': True}, self.defaults())

    def test_credentials_come_from_service_auth(self):
        auth = {'auth_type': 'password', 'auth_url': 'http://keystone/', 'password': 'pw'}
        given = auth | {'username': '', 'timeout': 20}
        found = self.defaults((*auth, 'username'), service_auth=given)
        self.assertEqual(auth, {name: found[name] for name in auth})
        self.assertEqual(20, found['timeout'])
        self.assertNotIn('username', found)

    def test_credentials_can_be_in_the_group_that_service_auth_names(self):
        auth = {'auth_type': 'v3applicationcredential', 'application_credential_id': 'ac'}
        found = self.defaults(
            auth, service_auth={'auth_section': 'elsewhere', 'timeout': 9}, elsewhere=auth
        )
        self.assertEqual(auth | {'timeout': 9}, {name: found[name] for name in (*auth, 'timeout')})

    def test_endpoints_come_from_the_groups_of_the_services(self):
        found = self.defaults(
            nova={
                'region_name': 'east', 'endpoint_type': 'internalURL',
                'endpoint': 'https://nova/v2.1', 'insecure': True,
            },
            glance={'endpoint': 'https://glance'},
            neutron={'endpoint_override': 'https://neutron'},
        )  # fmt: skip
        self.assertEqual(
            {
                'region_name': 'east', 'valid_interfaces': ['internal'], 'insecure': True,
                'compute_endpoint_override': 'https://nova/v2.1', 'config_drive': True,
                'image_endpoint_override': 'https://glance',
                'network_endpoint_override': 'https://neutron',
            },
            found,
        )  # fmt: skip

    def test_an_interface_can_be_written_without_url(self):
        found = self.defaults(nova={'endpoint_type': 'internal'})
        self.assertEqual(['internal'], found['valid_interfaces'])

    def test_the_ca_file_of_nova_takes_precedence_over_that_of_keystone(self):
        keystones = {'cafile': '/keystone.pem'}
        self.assertEqual('/keystone.pem', self.defaults(service_auth=keystones)['cafile'])
        found = self.defaults(service_auth=keystones, nova={'ca_certificates_file': '/nova.pem'})
        self.assertEqual('/nova.pem', found['cafile'])

    def test_images_are_limited_to_their_owner(self):
        found = self.defaults(controller_worker={'amp_image_owner_id': 'p1'})
        self.assertEqual('p1', found['image_owner'])

    def test_amphorae_on_volumes_stay_on_volumes(self):
        worker = {'volume_driver': settings.VOLUME_BACKED}
        found = self.defaults(controller_worker=worker, cinder={'volume_type': 'fast'})
        self.assertEqual((16, 'fast'), (found['boot_volume_size'], found['boot_volume_type']))

    def test_set_but_unused_options_are_listed(self):
        cinder = {'availability_zone': 'az1'}
        self.assertEqual([], settings.unused(octavia_conf(cinder=cinder)))
        conf = octavia_conf(
            nova={'service_name': 'nova2'},
            cinder=cinder,
            controller_worker={'volume_driver': settings.VOLUME_BACKED},
        )
        self.assertEqual(
            ['[nova] service_name', '[cinder] availability_zone'], settings.unused(conf)
        )


class Noop(unittest.TestCase):
    def test_any_flavor_and_zone_is_accepted(self):
        self.assertEqual({'flavors': None, 'zones': None}, settings.noop_defaults())
