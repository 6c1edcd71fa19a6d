"""From options, or clouds.yaml, to a session; nothing is asked of the network."""

import logging
import os
import pathlib
import tempfile
import unittest
import warnings
from unittest import mock

from keystoneauth1 import exceptions as ksa

from kiln.compute_drivers.nova.session import open_session
from kiln.exceptions import ConfigurationError
from tests.unit.compute_drivers.nova.loopback import Loopback
from tests.unit.compute_drivers.nova.written import written

PASSWORD = (
    'auth_url = http://keystone.invalid/v3', 'username = demo', 'password = Tr0ub4dor',
    'project_name = demo', 'user_domain_name = Default', 'project_domain_name = Default',
)  # fmt: skip


class SessionCase(unittest.TestCase):
    def open(self, *lines):
        session, region = open_session(written(*lines))
        self.addCleanup(session.session.close)
        return session, region

    def refused(self, text, *lines):
        """Check that options are refused with one line that says why, and no secret."""
        with self.assertRaises(ConfigurationError) as caught:
            self.open(*lines)
        self.assertRegex(str(caught.exception), text)
        self.assertEqual(1, len(str(caught.exception).splitlines()))
        self.assertNotIn('Tr0ub4dor', str(caught.exception))

    def token_request(self, session_of):
        """Return what Keystone is asked for a token with."""
        with Loopback({'POST /v3/auth/tokens': (401, {}, {'error': {'message': 'no'}})}) as web:
            session = session_of(f'{web.url}/v3')
            with self.assertRaises(ksa.Unauthorized):
                session.get_token()
            what, _, sent = web.asked[-1]
        self.assertEqual('POST /v3/auth/tokens', what)
        return sent.decode()


class FromOptions(SessionCase):
    def test_a_password(self):
        def session_of(url):
            return self.open(*PASSWORD, f'auth_url = {url}')[0]

        sent = self.token_request(session_of)
        self.assertIn('"password": "Tr0ub4dor"', sent)
        self.assertIn('"scope": {"project": {"name": "demo"', sent)

    def test_an_application_credential(self):
        def session_of(url):
            return self.open(
                'auth_type = v3applicationcredential', f'auth_url = {url}',
                'application_credential_id = a-1', 'application_credential_secret = Tr0ub4dor',
            )[0]  # fmt: skip

        sent = self.token_request(session_of)
        self.assertIn('"methods": ["application_credential"]', sent)
        self.assertIn('"id": "a-1"', sent)

    def test_a_token(self):
        def session_of(url):
            return self.open(
                'auth_type = v3token', f'auth_url = {url}', 'token = Tr0ub4dor', 'project_id = p-1'
            )[0]

        sent = self.token_request(session_of)
        self.assertIn('"methods": ["token"]', sent)

    def test_none_at_all(self):
        session, _ = self.open('auth_type = none')
        with Loopback({'GET /': {}}) as web:
            session.get(f'{web.url}/', log=False)
            self.assertEqual('GET /', web.asked[0][0])

    def test_the_region_is_the_one_that_is_written(self):
        self.assertEqual('East', self.open(*PASSWORD, 'region_name = East')[1])
        self.assertIsNone(self.open(*PASSWORD)[1])

    def test_a_missing_url_of_keystone_is_told(self):
        self.refused('auth_type .password.: .*auth_url', 'username = demo', 'password = Tr0ub4dor')
        self.refused('auth_type .v3token.: .*auth_url', 'auth_type = v3token', 'token = Tr0ub4dor')

    def test_an_unknown_way_to_authenticate_is_told(self):
        self.refused('^Cannot use auth_type .magic.: .*magic', 'auth_type = magic')

    def test_a_way_to_authenticate_whose_options_are_not_read_here_is_told(self):
        # It is installed, but needs clouds.yaml.
        self.refused(
            '^Cannot use auth_type .v3oidcauthcode.: .*endpoint', 'auth_type = v3oidcauthcode',
            'auth_url = http://keystone.invalid/v3',
        )  # fmt: skip

    def test_a_certificate_is_checked_unless_that_is_forbidden(self):
        with tempfile.NamedTemporaryFile() as file:
            for lines, verify in (
                ((), True),
                ((f'cafile = {file.name}',), file.name),
                (('insecure = true',), False),
                (('insecure = true', f'cafile = {file.name}'), False),
            ):
                with self.subTest(lines):
                    self.assertEqual(verify, self.open(*PASSWORD, *lines)[0].verify)

    def test_a_certificate_of_the_client_has_its_key_beside_it_or_in_it(self):
        with tempfile.NamedTemporaryFile() as file:
            both = f'certfile = {file.name}', f'keyfile = {file.name}'
            self.assertEqual((file.name, file.name), self.open(*PASSWORD, *both)[0].cert)
            self.assertEqual(file.name, self.open(*PASSWORD, both[0])[0].cert)
        self.assertIsNone(self.open(*PASSWORD)[0].cert)

    def test_a_file_for_tls_that_is_not_there_is_told(self):
        for option in ('cafile', 'certfile'):
            self.refused(
                "^Cannot use TLS: there is no file '/nowhere/x.pem'\\.$",
                *PASSWORD, f'{option} = /nowhere/x.pem',
            )  # fmt: skip

    def test_there_is_a_connection_for_each_thread_and_the_watcher(self):
        session, _ = self.open(*PASSWORD, 'max_workers = 40')
        for url in ('http://a', 'https://a'):
            pool = session.session.get_adapter(url).poolmanager.connection_from_url(url).pool
            self.assertEqual(41, pool.maxsize)

    def test_a_driver_made_by_hand_has_connections_as_well(self):
        class Values:
            """The options of the driver alone, without those of every backend."""

            def __init__(self, values):
                self._values = values

            def __getattr__(self, name):
                if name == 'max_workers':
                    raise AttributeError(name)
                return getattr(self._values, name)

        session, _ = open_session(Values(written(*PASSWORD)))
        self.addCleanup(session.session.close)
        pool = session.session.get_adapter('http://a').poolmanager.connection_from_url('http://a')
        self.assertEqual(17, pool.pool.maxsize)

    def test_the_environment_is_asked_once_which_proxy_a_service_has(self):
        session, _ = self.open('auth_type = none')
        with Loopback({'GET /here': {}}) as proxy:
            environ = {'http_proxy': proxy.url, 'no_proxy': '127.0.0.1'}
            # The environment is the real one, and put back afterwards.
            with mock.patch.dict(os.environ, environ):
                session.get('http://nova.invalid/here')
                with self.assertRaises(ksa.ConnectFailure):
                    session.get('http://127.0.0.1:1/here')
            session.get('http://nova.invalid/here')
            self.assertEqual(2, len(proxy.asked))

    def test_no_password_that_is_kept_for_the_host_is_sent(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / 'netrc').write_text('default login demo password Tr0ub4dor\n')
        session, _ = self.open('auth_type = none')
        # The environment is the real one, and put back afterwards.
        with (
            Loopback({'GET /here': {}}) as cloud,
            mock.patch.dict(os.environ, {'NETRC': str(folder / 'netrc')}),
        ):
            session.get(f'{cloud.url}/here')
            self.assertNotIn('Authorization', cloud.asked[-1][1])

    def test_a_proxy_given_with_a_request_is_used(self):
        session, _ = self.open('auth_type = none')
        with Loopback({'GET /here': {}}) as proxy:
            session.session.get('http://nova.invalid/here', proxies={'http': proxy.url})
            self.assertEqual(1, len(proxy.asked))

    def test_ciphers_and_version_of_tls_are_passed_on(self):
        session, _ = self.open(*PASSWORD, 'tls_min_version = 1.3', 'tls_ciphers = HIGH')
        adapter = session.session.get_adapter('https://a')
        self.assertEqual(('1.3', 'HIGH'), (adapter.tls_min_version, adapter.tls_ciphers))


CLOUDS = """
clouds:
  west:
    region_name: West
    auth_type: v3applicationcredential
    auth:
      auth_url: {url}
      application_credential_id: a-1
      application_credential_secret: Tr0ub4dor
  two:
    regions: [North, South]
    auth: {{auth_url: '{url}', username: demo, password: Tr0ub4dor, project_name: demo}}
  incomplete:
    auth: {{username: demo, password: Tr0ub4dor}}
  magic:
    auth_type: magic
    auth: {{auth_url: '{url}'}}
  untrusted:
    cacert: /nowhere/ca.pem
    auth: {{auth_url: '{url}', username: demo, password: Tr0ub4dor, project_name: demo}}
"""


class FromCloudsYaml(SessionCase):
    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.file = folder / 'clouds.yaml'
        self.write('http://keystone.invalid/v3')
        # Credentials of another cloud are in the environment of many a shell.
        self.enterContext(
            mock.patch.dict(
                os.environ,
                {'OS_CLIENT_CONFIG_FILE': str(self.file), 'OS_PASSWORD': 'of another cloud'},
            )
        )
        # The SDK warns of an option of its own that nobody has used here.
        self.enterContext(warnings.catch_warnings())
        warnings.filterwarnings('ignore', 'Support for InfluxDB')
        # What it has to say of files is not what is tried here.
        logging.getLogger('openstack.config').setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger('openstack.config').setLevel, logging.NOTSET)

    def write(self, url, text=CLOUDS):
        self.file.write_text(text.format(url=url))

    def test_a_cloud_is_found_by_its_name(self):
        def session_of(url):
            self.write(url)
            return self.open('cloud = west')[0]

        sent = self.token_request(session_of)
        self.assertIn('"id": "a-1"', sent)
        self.assertIn('"secret": "Tr0ub4dor"', sent)
        self.assertNotIn('of another cloud', sent)

    def test_the_region_is_the_one_of_the_cloud_unless_another_is_written(self):
        self.assertEqual('West', self.open('cloud = west')[1])
        self.assertEqual('North', self.open('cloud = two')[1])
        self.assertEqual('South', self.open('cloud = two', 'region_name = South')[1])

    def test_its_session_has_kilns_own_connections(self):
        session, _ = self.open('cloud = west', 'max_workers = 40')
        pool = session.session.get_adapter('http://a').poolmanager.connection_from_url('http://a')
        self.assertEqual(41, pool.pool.maxsize)

    def test_a_cloud_that_is_not_there_is_told(self):
        self.refused("^Cannot use cloud 'nowhere' of clouds.yaml: .*nowhere", 'cloud = nowhere')

    def test_a_region_that_the_cloud_does_not_have_is_told(self):
        self.refused('East', 'cloud = two', 'region_name = East')

    def test_a_cloud_without_a_url_of_keystone_is_told(self):
        self.refused("^Cannot use cloud 'incomplete' .*auth_url", 'cloud = incomplete')

    def test_a_cloud_with_an_unknown_way_to_authenticate_is_told(self):
        self.refused("^Cannot use cloud 'magic' .*magic", 'cloud = magic')

    def test_a_list_of_authorities_that_is_not_there_is_told(self):
        self.refused("there is no file '/nowhere/ca.pem'", 'cloud = untrusted')

    def test_a_file_that_cannot_be_read_is_told(self):
        for text in ('clouds: [', 'clouds: {{west: 7}}', 'west', '[]', ''):
            with self.subTest(text):
                self.write('', text)
                self.refused("^Cannot use cloud 'west' of clouds.yaml: ", 'cloud = west')


if __name__ == '__main__':
    unittest.main()
