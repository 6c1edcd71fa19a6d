"""Configuration mistakes on the real cloud, each reported in one line with a remedy."""

import os
import pathlib
import subprocess
import sys
import tempfile

from tests.functional.nova.site import NovaCase


class Mistakes(NovaCase):
    def setUp(self):
        super().setUp()
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        auth = ''.join(f'{key} = {value}\n' for key, value in self.cloud.auth(self.who).items())
        self.file = folder / 'kiln.conf'
        self.file.write_text(
            '[compute]\ndefault_backend = east\n'
            '[compute:east]\ndriver = nova\nvalid_interfaces = public\nimage = tiny\n'
            f'flavor = tiny\ncircuit_minimum_calls = 50\n{auth}'
        )

    def kiln(self, *arguments, **options):
        environment = {f'KILN_COMPUTE_EAST__{name}': value for name, value in options.items()}
        return subprocess.run(
            [
                sys.executable, '-m', 'kiln.cli', '-v', '-v', '--config-file', str(self.file),
                *arguments,
            ],
            env={**os.environ, **environment},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    def told(self, expected, *arguments, **options):
        done = self.kiln(*(arguments or ('compute', 'list', '--timeout', '20')), **options)
        self.assertNotEqual(0, done.returncode)
        self.assertNotIn('Traceback', done.stderr + done.stdout)
        self.assertNotIn(self.cloud.auth(self.who)['password'] + 'X', done.stderr + done.stdout)
        # Why it is repeated, where that can help, comes before the error.
        lines = [
            line
            for line in done.stderr.splitlines()
            if line.startswith('kiln: ') and ' delays this: ' not in line
        ]
        self.assertEqual(1, len(lines), done.stderr)
        self.assertRegex(lines[0], expected)

    def test_a_wrong_password_is_reported_as_refused_credentials(self):
        self.told('Keystone refuses the credentials', PASSWORD='wrongX')

    def test_a_wrong_project_is_reported_as_refused_credentials(self):
        self.told('Keystone refuses the credentials', PROJECT_NAME='nowhere')

    def test_a_missing_auth_url_is_named(self):
        self.told('auth.url', AUTH_URL='')

    def test_an_auth_url_where_nothing_listens_is_reported(self):
        self.told('Keystone cannot be reached: connection refused', AUTH_URL='http://127.0.0.1:1')

    def test_an_auth_url_that_does_not_resolve_is_reported(self):
        self.told('Keystone cannot be reached', AUTH_URL='http://nowhere.invalid:5000/v3')

    def test_an_auth_url_of_another_service_is_reported(self):
        nova = self.session.get_endpoint(service_type='compute', interface='public')
        self.told('no Keystone answers at auth_url', AUTH_URL=nova)

    def test_tls_to_a_server_without_tls_is_reported(self):
        url = self.cloud.auth(self.who)['auth_url'].replace('http:', 'https:')
        self.told('TLS failed', AUTH_URL=url)

    def test_an_unknown_region_is_named(self):
        self.told("the catalogue has no Nova in region 'Mars'", REGION_NAME='Mars')

    def test_an_endpoint_of_another_service_is_reported(self):
        neutron = self.session.get_endpoint(service_type='network', interface='public')
        self.told('is not Nova', COMPUTE_ENDPOINT_OVERRIDE=neutron)

    def test_an_unknown_auth_type_is_named(self):
        self.told("auth_type 'magic'", AUTH_TYPE='magic')

    def test_an_unknown_cloud_is_named(self):
        self.told("cloud 'mars' of clouds.yaml", CLOUD='mars')

    def test_a_microversion_outside_of_the_window_is_reported_with_the_window(self):
        self.told('must be from 2.52 to 2.96', MICROVERSION='2.200')

    def test_an_unknown_flavor_is_named(self):
        self.told('flavor .huge. was not found', 'compute', 'build', '--wait', FLAVOR='huge')

    def test_a_check_reports_all_defaults_that_do_not_exist(self):
        self.told(
            "flavor 'huge' was not found. Known: impossible, .*network 'net9' was not found. "
            "Known: .*net1.*security group 'wbe' was not found. Known: default",
            'compute', 'check', '--timeout', '60',
            FLAVOR='huge', NETWORKS='net9', SECURITY_GROUPS='wbe',
        )  # fmt: skip

    def test_networks_and_security_groups_are_given_by_name(self):
        done = self.kiln(
            'compute', 'build', '--wait', '--network', 'net1', '--sec-group', 'default'
        )
        self.assertEqual(0, done.returncode, done.stderr)

    def test_a_missing_permission_is_reported_as_403(self):
        self.told('403', 'compute', 'build', '--wait', AVAILABILITY_ZONE='az1:cmp1')

    def test_a_debug_log_has_no_secrets(self):
        secret = self.owner
        self.file.with_name('user').write_text(f'#!/bin/sh\necho {secret}\n')
        done = self.kiln(
            'compute', 'build', '--wait', '--network', self.net_id,
            '--user-data', str(self.file.with_name('user')),
        )  # fmt: skip
        said = done.stdout + done.stderr
        self.assertEqual(0, done.returncode, said)
        self.assertIn('POST', said)
        auth = self.cloud.auth(self.who)
        for hidden in (secret, f'"password": "{auth["password"]}"', 'gAAAA'):
            self.assertNotIn(hidden, said)
