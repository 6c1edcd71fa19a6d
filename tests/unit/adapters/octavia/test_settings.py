"""octavia.conf in the words of kiln's drivers."""

import unittest

from oslo_config import cfg

from kiln.adapters.octavia import settings

#: The options of Octavia that the translation reads, with their defaults.
OCTAVIA = {
    'nova': {
        'service_name': None, 'endpoint': None, 'region_name': None,
        'endpoint_type': 'publicURL', 'ca_certificates_file': None, 'insecure': False,
    },
    'controller_worker': {'amp_image_owner_id': '', 'volume_driver': 'volume_noop_driver'},
    'cinder': {'volume_size': 16, 'volume_type': None},
    'service_auth': {'auth_type': None, 'auth_section': None, 'cafile': None, 'timeout': None},
}  # fmt: skip


def octavia_conf(**groups):
    """Return a configuration with Octavia's options; ``nova={...}`` changes some, or adds."""
    conf = cfg.ConfigOpts()
    for group in OCTAVIA.keys() | groups.keys():
        for name, value in (OCTAVIA.get(group, {}) | groups.get(group, {})).items():
            conf.register_opt(cfg.Opt(name, type=lambda given: given, default=value), group)
    return conf


class Nova(unittest.TestCase):
    def defaults(self, **groups):
        return settings.nova_defaults(octavia_conf(**groups))

    def test_what_octavia_leaves_unset_stays_unset(self):
        self.assertEqual({'valid_interfaces': ['public'], 'config_drive': True}, self.defaults())

    def test_credentials_are_those_of_service_auth(self):
        auth = {
            'auth_type': 'password', 'auth_url': 'http://keystone/', 'username': 'octavia',
            'password': 'pw', 'project_name': 'service', 'user_domain_name': 'Default',
            'project_domain_name': 'Default', 'timeout': 20,
        }  # fmt: skip
        found = self.defaults(service_auth=auth)
        self.assertEqual(auth, {name: found.get(name) for name in auth})

    def test_credentials_may_be_in_the_group_that_service_auth_names(self):
        found = self.defaults(
            service_auth={'auth_section': 'elsewhere', 'timeout': 9},
            elsewhere={'auth_type': 'v3applicationcredential', 'application_credential_id': 'ac'},
        )
        self.assertEqual('ac', found['application_credential_id'])
        self.assertEqual('v3applicationcredential', found['auth_type'])
        self.assertEqual(9, found['timeout'])

    def test_where_nova_is_comes_from_the_group_nova(self):
        found = self.defaults(
            nova={
                'region_name': 'east', 'endpoint_type': 'internalURL', 'service_name': 'nova2',
                'endpoint': 'https://nova/v2.1', 'insecure': True,
            },
        )  # fmt: skip
        self.assertEqual(
            {
                'region_name': 'east', 'valid_interfaces': ['internal'], 'service_name': 'nova2',
                'endpoint_override': 'https://nova/v2.1', 'insecure': True, 'config_drive': True,
            },
            found,
        )  # fmt: skip

    def test_an_interface_may_be_written_without_url(self):
        found = self.defaults(nova={'endpoint_type': 'internal'})
        self.assertEqual(['internal'], found['valid_interfaces'])

    def test_the_authorities_of_nova_go_before_those_of_keystone(self):
        keystones = {'cafile': '/keystone.pem'}
        self.assertEqual('/keystone.pem', self.defaults(service_auth=keystones)['cafile'])
        found = self.defaults(service_auth=keystones, nova={'ca_certificates_file': '/nova.pem'})
        self.assertEqual('/nova.pem', found['cafile'])

    def test_images_are_chosen_among_those_of_their_owner(self):
        found = self.defaults(controller_worker={'amp_image_owner_id': 'p1'})
        self.assertEqual('p1', found['image_owner'])

    def test_amphorae_on_volumes_stay_on_volumes(self):
        worker = {'volume_driver': settings.VOLUME_BACKED}
        found = self.defaults(controller_worker=worker, cinder={'volume_type': 'fast'})
        self.assertEqual(
            (True, 16, 'fast'),
            (found['boot_from_volume'], found['volume_size'], found['volume_type']),
        )


class Noop(unittest.TestCase):
    def test_any_flavor_and_any_zone_will_do(self):
        self.assertEqual({'flavors': None, 'zones': None}, settings.noop_defaults(octavia_conf()))
