"""The matrix of drivers in the documentation agrees with the drivers."""

import configparser
import importlib.util
import pathlib
import subprocess
import sys

import pytest

from kiln import conf as kiln_conf
from kiln.cluster_drivers.discovery.manifest import from_class
from kiln.cluster_drivers.values import Cap
from kiln.compute.backends import DriverManager

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = ROOT / 'doc' / 'ext' / 'driver_matrix.py'

spec = importlib.util.spec_from_file_location('driver_matrix', SOURCE)
driver_matrix = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = driver_matrix
spec.loader.exec_module(driver_matrix)

#: Backends in whose configurations abilities and limits differ, by driver.
BACKENDS = {
    'appliance': ('bare', 'commanded'),
    'docker': ('seeded', 'seedless'),
    'heat': ('heat',),
    'ironic': ('ironic', 'unconnected'),
    'noop': ('noop',),
    'nova': ('nova',),
}
CONF = """
[compute:bare]
driver = appliance
inventory = {folder}/bare.toml
state_dir = {folder}/bare
[compute:commanded]
driver = appliance
inventory = {folder}/commanded.toml
state_dir = {folder}/commanded
[compute:seeded]
driver = docker
[compute:seedless]
driver = docker
seed = none
[compute:heat]
auth_type = none
orchestration_endpoint_override = http://127.0.0.1:9
[compute:ironic]
auth_type = none
baremetal_endpoint_override = http://127.0.0.1:9
network_endpoint_override = http://127.0.0.1:9
[compute:unconnected]
driver = ironic
auth_type = none
baremetal_endpoint_override = http://127.0.0.1:9
[compute:nova]
auth_type = none
compute_endpoint_override = http://127.0.0.1:9
"""
MACHINE = '[machines.one]\ntype = "bare_metal"\naddresses = ["192.0.2.1"]\nwipe = []\n'
COMMANDS = ''.join(f'{one} = ["/bin/true"]\n' for one in ('claim', 'reboot', 'rebuild', 'console'))


def entry_points(group):
    setup = configparser.ConfigParser()
    setup.read(ROOT / 'setup.cfg')
    return {line.partition(' =')[0] for line in setup['options.entry_points'][group].split('\n')}


@pytest.fixture
def opened(tmp_path):
    """Return the capabilities of each configured backend of a driver."""
    (tmp_path / 'bare.toml').write_text(MACHINE)
    (tmp_path / 'commanded.toml').write_text(MACHINE + COMMANDS)
    file = tmp_path / 'kiln.conf'
    file.write_text(CONF.format(folder=tmp_path))
    manager = DriverManager(kiln_conf.load([str(file)], environment={}))

    def capabilities(driver):
        found = []
        for backend in BACKENDS[driver]:
            one = manager.open_driver(backend)
            found.append(one.capabilities())
            one.close()
        return found

    return capabilities


def test_it_has_each_driver_in_tree():
    compute = {one.name for one in driver_matrix.compute_drivers()}
    assert compute == set(BACKENDS) == entry_points('kiln.compute_drivers') - {''}
    assert set(driver_matrix.cluster_drivers()) == entry_points('kiln.cluster_drivers') - {''}


@pytest.mark.parametrize('driver', driver_matrix.compute_drivers(), ids=lambda one: one.name)
def test_its_abilities_are_those_of_opened_backends(driver, opened):
    abilities = [one.abilities for one in opened(driver.name)]
    assert driver.abilities == frozenset.union(*abilities)
    assert driver.abilities - driver.conditional == frozenset.intersection(*abilities)


@pytest.mark.parametrize('driver', driver_matrix.compute_drivers(), ids=lambda one: one.name)
def test_its_limits_are_those_of_opened_backends(driver, opened):
    limits = [one.limits for one in opened(driver.name)]
    for name, limit in driver.limits.items():
        # The types of enrolled machines are in the inventory only.
        if (driver.name, name) == ('appliance', 'amphora_types'):
            assert limit.values == ()
        else:
            assert set(limit.values) == {getattr(one, name) for one in limits}, name


def test_its_cluster_drivers_state_what_they_provide_and_can_do():
    drivers = driver_matrix.cluster_drivers()
    provided = {name: str(*from_class(one).provides) for name, one in drivers.items()}
    assert provided == {
        'example_v1': '(*, *, example)',
        'heat_generated_v1': '(vm, *, heat-nodes)',
        'heat_group_v1': '(vm, *, heat-group)',
        'nodes_v1': '(*, *, nodes)',
        'swarm_debian_v1': '(*, debian, docker-swarm)',
    }
    by_engine = {Cap.RESIZE, Cap.UPGRADE, Cap.REBUILD, Cap.REBOOT}
    assert {name: one.capabilities - by_engine for name, one in drivers.items()} == {
        'example_v1': {Cap.MONITOR},
        'heat_generated_v1': set(),
        'heat_group_v1': set(),
        'nodes_v1': set(),
        'swarm_debian_v1': {Cap.MONITOR, Cap.ROTATE_CA_CERTIFICATE},
    }


def test_making_it_imports_no_client_library():
    program = (
        'import driver_matrix, sys\n'
        'driver_matrix.compute_drivers(), driver_matrix.cluster_drivers()\n'
        'print(sorted({"docker", "keystoneauth1", "novaclient", "requests"} & {*sys.modules}))\n'
    )
    run = subprocess.run(
        [sys.executable, '-c', program],
        env={'PYTHONPATH': f'{ROOT}:{SOURCE.parent}'},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == '[]\n'
