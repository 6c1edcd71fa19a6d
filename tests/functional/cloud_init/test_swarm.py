"""User data of Swarm nodes on Nova, read by the real cloud-init, and their first start."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from kiln.cluster_drivers.swarm_debian_v1.driver import Driver
from kiln.cluster_drivers.values import Context
from kiln.compute_drivers.authoring import user_data
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.building.body import content_of
from kiln.models import BuildRequest
from tests.functional.cloud_init.package import content, read
from tests.unit.cluster_drivers.swarm.case import a_cluster, a_node

ASKED = Asked(verb='build', subject='web-workers-1', build_key='n-1.0')
KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB ops@east'
START = '/etc/kiln-swarm/start'
DROP_IN = '/etc/systemd/system/docker.service.d/kiln.conf'


def given(**parameters):
    """Return the user data that Nova gets for a worker."""
    context = Context(nodes=(), join_key=lambda: b'k' * 32)
    bootstrap = Driver.open().bootstrap(context, a_cluster(**parameters), a_node(1))
    request = BuildRequest(
        name='web-workers-1', build_key='n-1.0', owner='me', user_data=bootstrap.user_data,
        files=bootstrap.files,
    )  # fmt: skip
    return content_of(ASKED, request, [KEY], 'auto')


class UserData(unittest.TestCase):
    """The content of the user data, for any values."""

    def test_user_data_alone_has_everything_that_a_machine_needs(self):
        found = read(self.fits(given()))
        self.assertEqual('web-workers-1', found['config']['hostname'])
        self.assertEqual([[START]], found['config']['runcmd'])
        self.assertEqual([KEY], found['config']['ssh_authorized_keys'])
        self.assertEqual(
            {
                START: 0o755, DROP_IN: 0o644, '/etc/docker/daemon.json': 0o644,
                '/etc/kiln-swarm/certify': 0o755, '/etc/kiln-swarm/ca.pem': 0o644,
                '/etc/kiln-swarm/authority.pem': 0o600,
            },
            {path: written['mode'] for path, written in found['files'].items()},
        )  # fmt: skip
        self.assertIn(b'PRIVATE KEY', content(found, '/etc/kiln-swarm/authority.pem'))
        self.assertIn(b'ExecStartPre=/etc/kiln-swarm/certify\n', content(found, DROP_IN))

    def test_no_value_escapes_from_its_place(self):
        odd = 'it\'s "b": {x}\n- !!python/name:os #\u2028é\\'
        for parameters in (
            {'labels': {odd: odd}}, {'registry_mirrors': [odd] * 3}, {'log_max_size': odd},
            {'insecure_registries': [odd]}, {'install': False}, {'availability': 'drain'},
        ):  # fmt: skip
            with self.subTest(parameters):
                found = read(self.fits(given(**parameters)))
                told = json.loads(content(found, '/etc/docker/daemon.json'))
                said = {
                    'registry_mirrors': told['registry-mirrors'],
                    'insecure_registries': told['insecure-registries'],
                    'log_max_size': told['log-opts']['max-size'],
                }
                self.assertEqual(said, said | {k: v for k, v in parameters.items() if k in said})
                self.assertEqual(6, len(found['files']))
                self.assertEqual([[START]], found['config']['runcmd'])

    def test_hundreds_of_labels_and_mirrors_fit_in_user_data(self):
        many = [f'https://mirror-{number}.example.com/v2' for number in range(400)]
        labels = {f'team-{number}': f'a label with some words {number}' for number in range(400)}
        content_ = self.fits(given(registry_mirrors=many, labels=labels))
        told = json.loads(content(read(content_), '/etc/docker/daemon.json'))
        self.assertEqual(many, told['registry-mirrors'])

    def fits(self, content_):
        self.assertEqual((), content_.personality)
        self.assertLessEqual(len(content_.user_data), user_data.MAX_BYTES)
        return content_.user_data


class StartScript(unittest.TestCase):
    """The script of the first start, with programs that log their calls on its PATH."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.calls = self.folder / 'calls'
        self.calls.touch()
        self.has('systemctl')

    def has(self, *names, code='true'):
        for name in names:
            program = self.folder / name
            program.write_text(f'#!/bin/sh\necho {name} "$@" >>{self.calls}\n{code}\n')
            program.chmod(0o755)

    def start(self, **parameters):
        script = content(read(given(**parameters).user_data), START)
        done = subprocess.run(
            ['/bin/sh', '-s'], input=script, env={**os.environ, 'PATH': str(self.folder)},
            capture_output=True, timeout=30, check=False,
        )  # fmt: skip
        return done, self.calls.read_text().splitlines()

    STARTED = (
        'systemctl daemon-reload', 'systemctl enable docker.service',
        'systemctl restart docker.service',
    )  # fmt: skip

    def test_an_image_with_docker_installs_no_packages(self):
        self.has('dockerd', 'openssl', 'apt-get')
        done, calls = self.start()
        self.assertEqual((0, [*self.STARTED]), (done.returncode, calls))

    def test_missing_packages_are_installed_before_the_engine_starts(self):
        for there in ('dockerd', 'openssl'):
            with self.subTest(f'it has {there} alone'):
                self.has(there, 'apt-get')
                done, calls = self.start()
                self.assertEqual(0, done.returncode, done.stderr)
                update, install, *started = calls
                self.assertEqual(('apt-get update', list(self.STARTED)), (update, started))
                self.assertRegex(install, 'install -y .* docker.io iptables openssl ca-cert')
                self.calls.write_text('')
                (self.folder / there).unlink()

    def test_the_installation_of_packages_is_repeated_until_it_succeeds(self):
        # The second call is the first install.
        self.has('apt-get', code=f'[ "$(/usr/bin/wc -l <{self.calls})" -ne 2 ]')
        self.has('sleep')
        done, calls = self.start()
        self.assertEqual(0, done.returncode, done.stderr)
        asked = [line.split()[1] for line in calls if line.startswith(('apt-get', 'sleep'))]
        self.assertEqual(['update', 'install', '5', 'update', 'install'], asked)

    def test_a_missing_engine_is_reported_if_nothing_can_be_installed(self):
        self.has('apt-get')
        done, calls = self.start(install=False)
        self.assertEqual((1, []), (done.returncode, calls))
        self.assertIn(b'the image has no Docker, and parameter install is false', done.stderr)
