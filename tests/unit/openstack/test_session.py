"""Sessions from options or clouds.yaml, without network requests."""

import contextlib
import logging
import os
import pathlib
import tempfile
import types
import unittest
import warnings
from unittest import mock

from keystoneauth1 import exceptions as ksa
from requests.adapters import BaseAdapter

from kiln.exceptions import ConfigurationError
from kiln.foreign.waiting import Wait, noted_in, waiting_for
from kiln.openstack.session import Connections, auth_headers, open_session
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
        """Check that options are refused with one line that has the reason and no secret."""
        with self.assertRaises(ConfigurationError) as caught:
            self.open(*lines)
        self.assertRegex(str(caught.exception), text)
        self.assertEqual(1, len(str(caught.exception).splitlines()))
        self.assertNotIn('Tr0ub4dor', str(caught.exception))

    def token_request(self, session_of):
        """Return the body of the token request to Keystone."""
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

    def test_a_forgotten_password_is_refused_when_the_backend_is_opened(self):
        without = [line for line in PASSWORD if 'Tr0ub4dor' not in line]
        self.refused('option password is missing or misspelt', *without)

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

    def test_no_authentication(self):
        session, _ = self.open('auth_type = none')
        with Loopback({'GET /': {}}) as web:
            session.get(f'{web.url}/', log=False)
            self.assertEqual('GET /', web.asked[0][0])

    def test_the_region_comes_from_the_options(self):
        self.assertEqual('East', self.open(*PASSWORD, 'region_name = East')[1])
        self.assertIsNone(self.open(*PASSWORD)[1])

    def test_a_missing_auth_url_is_reported(self):
        self.refused(
            'auth_type password, as option auth_url is missing',
            'username = demo',
            'password = Tr0ub4dor',
        )
        self.refused(
            'auth_type v3token, as option auth_url', 'auth_type = v3token', 'token = Tr0ub4dor'
        )

    def test_an_unknown_auth_type_is_reported(self):
        self.refused('^Cannot use auth_type .magic.: .*magic', 'auth_type = magic')

    def test_an_auth_type_that_needs_clouds_yaml_is_reported(self):
        # This plugin is installed, but needs clouds.yaml.
        self.refused(
            '^Cannot use auth_type .v3oidcauthcode.: .*endpoint', 'auth_type = v3oidcauthcode',
            'auth_url = http://keystone.invalid/v3',
        )  # fmt: skip

    def test_a_certificate_is_verified_unless_insecure(self):
        with tempfile.NamedTemporaryFile() as file:
            for lines, verify in (
                ((), True),
                ((f'cafile = {file.name}',), file.name),
                (('insecure = true',), False),
                (('insecure = true', f'cafile = {file.name}'), False),
            ):
                with self.subTest(lines):
                    self.assertEqual(verify, self.open(*PASSWORD, *lines)[0].verify)

    def test_a_client_certificate_has_its_key_in_another_file_or_in_its_own(self):
        with tempfile.NamedTemporaryFile() as file:
            both = f'certfile = {file.name}', f'keyfile = {file.name}'
            self.assertEqual((file.name, file.name), self.open(*PASSWORD, *both)[0].cert)
            self.assertEqual(file.name, self.open(*PASSWORD, both[0])[0].cert)
        self.assertIsNone(self.open(*PASSWORD)[0].cert)

    def test_a_missing_tls_file_is_reported(self):
        for option in ('cafile', 'certfile'):
            self.refused(
                "^Cannot use TLS: file '/nowhere/x.pem' does not exist\\.$",
                *PASSWORD, f'{option} = /nowhere/x.pem',
            )  # fmt: skip

    def test_each_thread_and_the_watcher_have_a_connection(self):
        session, _ = self.open(*PASSWORD, 'max_workers = 40')
        for url in ('http://a', 'https://a'):
            pool = session.session.get_adapter(url).poolmanager.connection_from_url(url).pool
            self.assertEqual(41, pool.maxsize)

    def test_a_driver_made_without_max_workers_has_connections(self):
        class Values:
            """The options of the driver only, without those common to all backends."""

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

    def test_proxies_are_read_from_the_environment_once(self):
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

    def test_no_password_from_netrc_is_sent(self):
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

    def test_tls_ciphers_and_version_are_passed_on(self):
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
        # Many shells have credentials of another cloud in their environment.
        self.enterContext(
            mock.patch.dict(
                os.environ,
                {'OS_CLIENT_CONFIG_FILE': str(self.file), 'OS_PASSWORD': 'of another cloud'},
            )
        )
        # The SDK warns about one of its own options, which is not used here.
        self.enterContext(warnings.catch_warnings())
        warnings.filterwarnings('ignore', 'Support for InfluxDB')
        # Its messages about files are not tested here.
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

    def test_the_region_of_the_cloud_can_be_overridden(self):
        self.assertEqual('West', self.open('cloud = west')[1])
        self.assertEqual('North', self.open('cloud = two')[1])
        self.assertEqual('South', self.open('cloud = two', 'region_name = South')[1])

    def test_its_session_has_kilns_own_connections(self):
        session, _ = self.open('cloud = west', 'max_workers = 40')
        pool = session.session.get_adapter('http://a').poolmanager.connection_from_url('http://a')
        self.assertEqual(41, pool.pool.maxsize)

    def test_an_unknown_cloud_is_reported(self):
        self.refused("^Cannot use cloud 'nowhere' of clouds.yaml: .*nowhere", 'cloud = nowhere')

    def test_an_unknown_region_is_reported(self):
        self.refused('East', 'cloud = two', 'region_name = East')

    def test_a_cloud_without_auth_url_is_reported(self):
        self.refused("^Cannot use cloud 'incomplete' .*auth_url", 'cloud = incomplete')

    def test_a_cloud_with_an_unknown_auth_type_is_reported(self):
        self.refused("^Cannot use cloud 'magic' .*magic", 'cloud = magic')

    def test_a_missing_ca_file_is_reported(self):
        self.refused("file '/nowhere/ca.pem' does not exist", 'cloud = untrusted')

    def test_an_unreadable_clouds_yaml_is_reported(self):
        for text in ('clouds: [', 'clouds: {{west: 7}}', 'west', '[]', ''):
            with self.subTest(text):
                self.write('', text)
                self.refused("^Cannot use cloud 'west' of clouds.yaml: ", 'cloud = west')


class Waiting(unittest.TestCase):
    def test_keystone_is_named_and_no_other_service_on_its_host_is_taken_for_it(self):
        for auth_url in ('http://cloud.invalid', 'http://cloud.invalid/v3/'):
            seen, wait = {}, Wait()

            class Adapter(BaseAdapter):
                def send(self, request, seen=seen, wait=wait, **_):
                    seen[request.url.removeprefix('http://cloud.invalid')] = wait.whom
                    raise ConnectionError

                def close(self):
                    """It keeps nothing."""

            connections = Connections(connect_timeout_s=1, timeout_s=1, keystone=auth_url)
            connections.mount('http://', Adapter())
            with noted_in(wait):
                for path in ('/', '/v3/auth/tokens', '/v2.1/servers?tags=a', ':8774/v2.1/'):
                    with contextlib.suppress(ConnectionError):
                        connections.get(f'http://cloud.invalid{path}')
            keystone = 'Keystone at http://cloud.invalid'
            self.assertEqual(
                {'/': keystone, '/v3/auth/tokens': keystone,
                 '/v2.1/servers?tags=a': 'http://cloud.invalid/v2.1/servers',
                 ':8774/v2.1/': 'http://cloud.invalid:8774/v2.1/'},
                seen,
            )  # fmt: skip
            self.assertIsNone(wait.whom)

    def test_what_a_client_waits_for_keeps_its_name_unless_keystone_is_asked(self):
        seen, wait = [], Wait()

        class Adapter(BaseAdapter):
            def send(self, request, **_):
                seen.append(wait.whom)
                raise ConnectionError

            def close(self):
                """It keeps nothing."""

        connections = Connections(connect_timeout_s=1, timeout_s=1, keystone='http://k.invalid')
        connections.mount('http://', Adapter())
        with noted_in(wait), waiting_for('Nova at http://n.invalid/v2.1'):
            for url in ('http://n.invalid/v2.1/servers', 'http://k.invalid/v3/auth/tokens'):
                with contextlib.suppress(ConnectionError):
                    connections.get(url)
        self.assertEqual(['Nova at http://n.invalid/v2.1', 'Keystone at http://k.invalid'], seen)

    def test_a_thread_that_waits_for_the_token_of_another_waits_for_keystone(self):
        seen, wait = [], Wait()

        class Session:
            auth = types.SimpleNamespace(auth_url='http://k.invalid/v3/')

            def get_auth_headers(self):
                seen.append(wait.whom)

        with noted_in(wait):
            self.assertEqual({}, auth_headers(Session()))
        self.assertEqual(['Keystone at http://k.invalid'], seen)


if __name__ == '__main__':
    unittest.main()
