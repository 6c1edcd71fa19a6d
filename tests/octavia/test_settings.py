"""Translation of a real octavia.conf, read with Octavia's own options."""

import contextlib

from keystoneauth1 import loading
from octavia.common import exceptions
from oslo_config import cfg

from kiln.adapters.octavia import settings
from kiln.adapters.octavia.driver import KilnNovaDriver
from kiln.adapters.octavia.shared import SHARED
from kiln.compute.loading import installed_drivers, load_compute_driver
from tests.octavia.case import CONF, OctaviaCase

PASSWORD = """
[service_auth]
auth_type = password
auth_url = http://keystone/v3
username = octavia
password = pw
project_name = service
user_domain_name = Default
project_domain_id = default
insecure = true

[nova]
region_name = east
endpoint_type = internalURL
"""

REFERRED = """
[service_auth]
auth_section = clouds_of_ours
[clouds_of_ours]
auth_type = v3applicationcredential
auth_url = http://keystone/v3
application_credential_id = ac
application_credential_secret = pw
"""


class Nova(OctaviaCase):
    def setUp(self):
        super().setUp()
        # Some of the options registered here are required, also in the following tests.
        self.addCleanup(self.undeclare, 'clouds_of_ours', 'v3applicationcredential')
        self.addCleanup(self.undeclare, 'service_auth', 'password')

    @staticmethod
    def undeclare(section, plugin):
        CONF.reset()
        # A test that does not name the section has not registered it.
        with contextlib.suppress(cfg.NoSuchGroupError):
            CONF.unregister_opts(loading.get_auth_plugin_conf_options(plugin), section)

    def defaults(self, text):
        self.configure(text)
        return settings.nova_defaults(CONF, settings.declare_auth(CONF))

    def test_all_options_of_service_auth_and_nova_are_used(self):
        self.assertEqual(
            {
                'auth_type': 'password', 'auth_url': 'http://keystone/v3', 'username': 'octavia',
                'password': 'pw', 'project_name': 'service', 'user_domain_name': 'Default',
                'project_domain_id': 'default', 'insecure': True, 'region_name': 'east',
                'valid_interfaces': ['internal'], 'config_drive': True,
            },
            self.defaults(PASSWORD),
        )  # fmt: skip

    def test_any_auth_plugin_in_any_section_is_accepted(self):
        found = self.defaults(REFERRED)
        self.assertEqual('v3applicationcredential', found['auth_type'])
        self.assertEqual('ac', found['application_credential_id'])
        self.assertEqual('pw', found['application_credential_secret'])

    def test_kilns_nova_driver_accepts_all_options(self):
        self.configure(PASSWORD + 'service_name = n\n[compute:nova]\nregion_name = west\n')
        with self.assertLogs('kiln.adapters.octavia', 'WARNING') as logs:
            nova = SHARED.get('nova', CONF)
        self.assertRegex(logs.output[0], r'\[nova\] service_name')
        self.assertEqual(('nova', 'octavia'), (nova.name, nova.driver.owner))
        values = CONF['compute:nova']
        self.assertEqual(
            ('octavia', 'pw', ['internal'], 'west', True),
            (
                values.username, values.password, values.valid_interfaces,
                values.region_name, values.config_drive,
            ),
        )  # fmt: skip
        CONF.mutate_config_files()

    def test_options_that_the_driver_lacks_are_refused_and_not_dropped(self):
        self.configure(PASSWORD + '[compute:nova]\ndriver = noop\n')
        with self.assertRaisesRegex(exceptions.ComputeBuildException, r'\[compute:nova\]') as it:
            KilnNovaDriver().build()
        self.assertNotIn('pw', str(it.exception))


class Reloading(OctaviaCase):
    def test_a_worker_can_reload_its_file(self):
        self.build()
        CONF.mutate_config_files()
        self.assertEqual(1, len(self.amphorae()))

    def test_no_option_of_kilns_drivers_prevents_a_reload(self):
        # Octavia cannot reload if any group lacks a required option.
        for driver in installed_drivers():
            options = load_compute_driver(driver.name).options
            self.assertEqual([], [opt.name for opt in options if opt.required], driver.name)
