"""Comparison of Octavia's API tests with kiln_noop and with Octavia's driver.

    python -m tests.functional.octavia.tempest                    # all of api.v2, twice
    python -m tests.functional.octavia.tempest --drivers kiln_noop --regex test_flavor

A run takes most of an hour, so it belongs to a soak. It uses the cloud of the functional
tests, which must not run at the same time.
"""

import argparse
import configparser
import csv
import os
import shutil
import subprocess
import sys

from tests.functional.cloud import ROOT, clean_cloud

REQUIREMENTS = ('tempest==47.0.0', 'octavia-tempest-plugin==3.5.0')
PREFIX = r'octavia_tempest_plugin\.tests\.api\.v2'
DRIVERS = ('kiln_noop', 'compute_noop_driver')
PROVIDERS = 'amphora:Amphora,octavia:alias,noop_driver:Noop,noop_driver-alt:Noop'
#: The drivers of the cloud unless a test sets others.
REAL = {
    'compute_driver': 'compute_nova_driver',
    'network_driver': 'allowed_address_pairs_driver',
    'image_driver': 'image_glance_driver',
}
SIMULATED = {'network_driver': 'network_noop_driver', 'image_driver': 'image_noop_driver'}
FINDS_TESTS = """[DEFAULT]
test_path={folder}
top_dir={top}
group_regex=([^\\.]*\\.)*
"""


class Tempest:
    """A Tempest environment and workspace, both in the home of the cloud."""

    def __init__(self, cloud):
        self._cloud = cloud
        self._programs = cloud.home / 'tempest-venv' / 'bin'
        self._folder = cloud.home / 'tempest'

    def install(self):
        python = self._programs / 'python'
        if not python.exists():
            venv = self._programs.parent
            subprocess.run([sys.executable, '-m', 'venv', venv], check=True)
        subprocess.run([python, '-m', 'pip', 'install', '-q', *REQUIREMENTS], check=True)

    def configure(self):
        for name in ('etc', 'lock', 'log'):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        text = configparser.ConfigParser(interpolation=None, default_section='-')
        text.optionxform = str
        text.read_dict(self._sections())
        with (self._folder / 'etc' / 'tempest.conf').open('w') as config:
            text.write(config)
        (found,) = self._programs.parent.glob('lib/python3*/site-packages/tempest/test_discover')
        (self._folder / '.stestr.conf').write_text(
            FINDS_TESTS.format(folder=found, top=found.parents[1])
        )

    def _sections(self):
        auth = self._cloud.auth()
        return {
            'DEFAULT': {'log_dir': self._folder / 'log', 'use_stderr': False},
            'oslo_concurrency': {'lock_path': self._folder / 'lock'},
            'auth': {
                'use_dynamic_credentials': True,
                'admin_username': auth['username'],
                'admin_password': auth['password'],
                'admin_project_name': auth['project_name'],
                'admin_domain_name': 'Default',
                'create_isolated_networks': False,
                'tempest_roles': 'member',
            },
            'identity': {
                'uri_v3': auth['auth_url'],
                'auth_version': 'v3',
                'region': 'RegionOne',
                'v3_endpoint_type': 'public',
            },
            'identity-feature-enabled': {'api_v2': False, 'api_v3': True},
            'service_available': {
                'neutron': True, 'nova': True, 'glance': True, 'load_balancer': True,
                'cinder': False, 'swift': False, 'horizon': False,
            },
            'network': {
                'public_network_id': self._id('network', '/v2.0/networks', 'networks', 'ext'),
                'project_networks_reachable': False,
            },
            'compute': {
                'image_ref': self._id('image', '/v2/images', 'images', 'tiny'),
                'flavor_ref': self._id('compute', '/flavors', 'flavors', 'tiny'),
            },
            'load_balancer': {
                'test_with_noop': True,
                'test_with_ipv6': True,
                'provider': 'amphora',
                'enabled_provider_drivers': PROVIDERS,
                # The roles that Octavia checks if new defaults are enforced.
                'RBAC_test_type': 'keystone_default_roles',
                'region': 'RegionOne',
                'build_interval': 1, 'build_timeout': 120,
                'check_interval': 1, 'check_timeout': 60,
                'lb_build_interval': 1, 'lb_build_timeout': 300,
                'log_user_roles': False,
                # Without zones, the tests of zones get a 501.
                'availability_zone': 'az1', 'availability_zone2': 'az2',
                'availability_zone3': 'az3',
            },
            'loadbalancer-feature-enabled': {'not_implemented_is_error': True},
            'enforce_scope': {'octavia': True},
        }  # fmt: skip

    def _id(self, service, path, what, name):
        answer = self._cloud.session().get(path, endpoint_filter={'service_type': service})
        (found,) = (row['id'] for row in answer.json()[what] if row['name'] == name)
        return found

    def run(self, regex, concurrency):
        """Run the tests; return the outcome of each."""
        path = f'{self._programs}{os.pathsep}{os.environ["PATH"]}'
        # Otherwise an aborted run would show the results of the run before it.
        shutil.rmtree(self._folder / '.stestr', ignore_errors=True)
        command = [
            'tempest', 'run', '--config-file', 'etc/tempest.conf',
            '--concurrency', str(concurrency), '--regex', regex,
        ]  # fmt: skip
        self._do(command, path)
        last = self._do(['stestr', 'last', '--subunit'], path, capture_output=True)
        rows = self._do(['subunit2csv'], path, input=last.stdout, capture_output=True)
        found = csv.DictReader(rows.stdout.decode().splitlines())
        return {row['test']: row['status'] for row in found}

    def _do(self, command, path, **more):
        program = self._programs / command[0]
        environment = os.environ | {'PATH': path, 'PYTHONWARNINGS': 'ignore'}
        # A test that fails is a result, not an error.
        return subprocess.run(
            [self._programs / 'python', program, *command[1:]],
            cwd=self._folder, env=environment, check=False, **more,
        )  # fmt: skip


def use(cloud, drivers):
    """Let Octavia use these drivers."""
    settings = [
        word
        for name, driver in drivers.items()
        for word in ('--set', f'octavia.controller_worker.{name}={driver}')
    ]
    cloud.run('up', '--with', 'octavia', '--octavia-package', str(ROOT), *settings)


def parser():
    words = argparse.ArgumentParser(prog='tempest', description=__doc__.partition('\n')[0])
    words.add_argument('--drivers', type=lambda text: text.split(','), default=DRIVERS)
    words.add_argument('--regex', default='', help='of the tests, below api.v2')
    words.add_argument('--concurrency', type=int, default=2)
    return words


def main():
    """Run the tests with each driver; return 1 if any fails, or if the drivers differ."""
    given = parser().parse_args()
    cloud = clean_cloud('octavia')
    tempest = Tempest(cloud)
    tempest.install()
    found = {}
    try:
        for driver in given.drivers:
            use(cloud, SIMULATED | {'compute_driver': driver})
            tempest.configure()
            found[driver] = tempest.run(f'{PREFIX}.*{given.regex}', given.concurrency)
    finally:
        use(cloud, REAL)
        cloud.run('reset')
    return report(found)


def report(found):
    """Print the counts of outcomes and the differing tests; return an exit status."""
    for driver, outcomes in found.items():
        counted = [f'{sum(one == kind for one in outcomes.values())} {kind}'
                   for kind in sorted(set(outcomes.values()))]  # fmt: skip
        print(f'{driver}: {len(outcomes)} tests: {", ".join(counted)}')
    first, *others = found.values()
    differing = {
        test: [outcomes.get(test) for outcomes in found.values()]
        for outcomes in others
        for test in first.keys() | outcomes.keys()
        if first.get(test) != outcomes.get(test)
    }
    for test, outcomes in sorted(differing.items()):
        print(f'differs: {test}: {" / ".join(map(str, outcomes))}')
    failed = any('fail' in outcomes.values() for outcomes in found.values())
    return int(failed or bool(differing) or not first)


if __name__ == '__main__':
    sys.exit(main())
