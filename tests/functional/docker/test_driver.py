"""Seeds, limits, health, events and crashes on real engines, beyond the kit."""

import pathlib
import subprocess
import sys
import tempfile
import time

from kiln.compute_drivers.docker import names
from kiln.exceptions import (
    BuildConflict,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    PermissionDenied,
)
from kiln.models import AmphoraType, ImageFile, Resource, State
from tests.functional.docker.site import PLAIN, EngineCase, plain_image
from tests.functional.engines import COMMAND, ROOT, plain_tar

WAIT_S = 180


class Case(EngineCase):
    def build(self, driver, key='k1', **given):
        base = {'amphora_type': AmphoraType.CONTAINER, 'name': key, 'build_key': key}
        return driver.build(**{**base, **given})

    def until(self, so, what):
        end = time.monotonic() + WAIT_S
        while not so():
            if time.monotonic() > end:
                self.fail(f'after {WAIT_S} s this still does not hold: {what}')
            time.sleep(0.05)


class Content(Case):
    """Files, user data and seeds, as seen inside the container."""

    def test_files_exist_with_mode_and_owner_before_the_command_runs(self):
        driver = self.open_local()
        made = self.build(
            driver,
            config_drive_files={
                '/etc/app/deep/key.pem': (b'secret', 0o600, 'root'),
                '/srv/page': (b'hello', 0o640, 'web:www'),
            },
            user_data='#!/bin/sh\n',
        )
        said = self.said_in(
            made, 'stat', '-c', '%a %u %g %n', '/etc/app/deep', '/etc/app/deep/key.pem',
            '/srv/page', '/var/lib/kiln/user-data', '/etc',
        )  # fmt: skip
        self.assertEqual(
            [
                '755 0 0 /etc/app/deep', '600 0 0 /etc/app/deep/key.pem', '640 33 44 /srv/page',
                '600 0 0 /var/lib/kiln/user-data', '755 0 0 /etc',
            ],
            said.split('\n')[:-1],
        )  # fmt: skip
        self.assertEqual('hello', self.said_in(made, 'cat', '/srv/page'))

    def test_an_image_with_cloud_init_gets_a_seed(self):
        plain_image(self.place.url, 'kiln-tests/seeded:1', **{'kiln.seed': 'nocloud'})
        driver = self.open_local(image='kiln-tests/seeded:1')
        made = self.build(driver, keys=['ssh-ed25519 AAAA me'], name='Web_1')
        folder = '/var/lib/cloud/seed/nocloud'
        self.assertIn(
            '"local-hostname": "web-1"', self.said_in(made, 'cat', f'{folder}/meta-data')
        )
        self.assertIn('ssh-ed25519', self.said_in(made, 'cat', f'{folder}/user-data'))

    def test_an_owner_missing_in_the_image_is_refused_and_leaves_nothing(self):
        driver = self.open_local()
        with self.assertRaises(InvalidBuildRequest) as caught:
            self.build(driver, config_drive_files={'/etc/a': (b'x', 0o600, 'nobody')})
        self.assertIn("no account 'nobody'", str(caught.exception))
        self.assertEqual([], self.containers())

    def test_a_file_that_would_be_hidden_is_refused(self):
        driver = self.open_local(tmpfs=['/run'])
        with self.assertRaises(InvalidBuildRequest):
            self.build(driver, config_drive_files={'/run/a': 'x'})

    def test_a_backend_without_seeds_refuses_builds_that_need_one(self):
        driver = self.open_local(seed='none')
        with self.assertRaises(InvalidBuildRequest):
            self.build(driver, user_data='x')
        self.assertTrue(self.build(driver))

    def test_an_image_that_boots_systemd_needs_the_option_privileged(self):
        plain_image(self.place.url, 'kiln-tests/systemd:1', **{'kiln.init': 'systemd'})
        with self.assertRaises(InvalidBuildRequest) as caught:
            self.build(self.open_local(image='kiln-tests/systemd:1'))
        self.assertIn('privileged', str(caught.exception))
        driver = self.open_local(image='kiln-tests/systemd:1', privileged=True)
        made = self.bare.inspect_container(self.build(driver))
        self.assertTrue(made['HostConfig']['Privileged'])
        self.assertEqual({'/run', '/run/lock'}, set(made['HostConfig']['Tmpfs']))


class Shapes(Case):
    """Limits, volumes, networks and ports, as the engine reports them."""

    def test_a_flavor_limits_a_container(self):
        made = self.build(self.open_local(), amphora_flavor='tiny')
        host = self.bare.inspect_container(made)['HostConfig']
        self.assertEqual(32 << 20, host['Memory'])
        self.assertEqual(64, host['PidsLimit'])

    def test_a_volume_is_removed_with_its_container(self):
        driver = self.open_local(volumes=['/data'])
        made = self.build(driver)
        (mount,) = self.bare.inspect_container(made)['Mounts']
        self.assertEqual(('volume', '/data'), (mount['Type'], mount['Destination']))
        driver.delete(made)
        found = self.bare.volumes()['Volumes'] or []
        self.assertNotIn(mount['Name'], [one['Name'] for one in found])

    def test_each_network_of_a_build_is_connected_with_its_address(self):
        second = self.make_network()
        subnet = self.bare.inspect_network(second)['IPAM']['Config'][0]['Subnet']
        address = f'{subnet.rpartition(".")[0]}.77'
        made = self.build(self.open_local(), network_ids=[self.network, f'{second}={address}'])
        hung = self.bare.inspect_container(made)['NetworkSettings']['Networks']
        self.assertEqual({self.network, second}, set(hung))
        self.assertEqual(address, hung[second]['IPAddress'])

    def test_a_build_without_networks_is_connected_to_those_of_the_backend(self):
        made = self.build(self.open_local(networks=[self.network]))
        hung = self.bare.inspect_container(made)['NetworkSettings']['Networks']
        self.assertEqual({self.network}, set(hung))

    def test_a_network_is_attached_with_an_address_and_detached(self):
        driver = self.open_local()
        made = self.build(driver)
        subnet = self.bare.inspect_network(self.network)['IPAM']['Config'][0]['Subnet']
        address = f'{subnet.rpartition(".")[0]}.78'
        attached = driver.attach_network(made, self.network, address=address)
        self.assertEqual((address,), attached.addresses)
        again = driver.attach_network(made, self.network)
        self.assertEqual(attached, again)
        driver.detach_network(made, self.network)
        hung = self.bare.inspect_container(made)['NetworkSettings']['Networks']
        self.assertNotIn(self.network, hung)
        driver.detach_network(made, 'no-such-network')

    def test_a_container_built_without_networks_has_none_to_attach_or_detach(self):
        driver = self.open_local()
        made = self.build(driver, network_ids=['none'])
        with self.assertRaises(InstanceStateConflict):
            driver.attach_network(made, self.network)
        driver.detach_network(made, self.network)

    def test_errors_of_a_build_are_distinguished_and_leave_nothing(self):
        driver = self.open_local(flavors='tiny: 32 MiB; huge: 999 cpus')
        for given, kind in (
            ({'network_ids': ['no-such-network']}, InvalidBuildRequest),
            ({'network_ids': [f'{self.network}=192.0.2.1']}, InvalidBuildRequest),
            ({'network_ids': ['../x']}, InvalidBuildRequest),
            ({'image_id': 'no-such-image:1'}, InvalidBuildRequest),
            ({'image_id': '../../containers/x'}, InvalidBuildRequest),
            ({'availability_zone': 'elsewhere'}, InvalidBuildRequest),
            ({'keys': ['ssh-ed25519 AAAA me']}, InvalidBuildRequest),
            *(
                [({'amphora_flavor': 'huge'}, InsufficientCapacity)]
                * (self.engine_kind == 'docker')
            ),
        ):
            with self.subTest(**given), self.assertRaises(kind):
                self.build(driver, **given)
            self.assertEqual([], self.containers())

    def test_a_port_of_the_host_is_published_once(self):
        driver = self.open_local(publish=['127.0.0.1:28099:80'])
        self.build(driver, 'k1')
        with self.assertRaises(BuildConflict):
            self.build(driver, 'k2')
        self.assertEqual(1, len(self.containers()))

    def test_an_image_with_an_invalid_command_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = plain_tar(pathlib.Path(folder, 'plain.tar'))
            driver = self.open_local()
            broken = ImageFile(name='kiln-tests/broken:1', path=path, command=('/no/such',))
            driver.import_image(broken)
        with self.assertRaises(InvalidBuildRequest):
            self.build(driver, image_id='kiln-tests/broken:1')
        self.assertEqual([], self.containers())


class Ownership(Case):
    """kiln removes only its own containers and resources."""

    def test_foreign_containers_do_not_exist_for_kiln(self):
        made = self.bare.create_container_from_config({'Image': PLAIN}, name=f'x-{self.owner}')
        self.addCleanup(self.bare.remove_container, made['Id'], force=True)
        driver = self.open_local()
        for one in (made['Id'], f'x-{self.owner}', made['Id'][:12]):
            driver.delete(one)
            self.assertEqual({}, driver.statuses([one]))
        self.assertTrue(self.bare.inspect_container(made['Id']))

    def test_only_labelled_volumes_and_networks_are_resources(self):
        driver = self.open_local()
        network = self.make_network(**{names.OWNER: self.owner})
        volume = self.bare.create_volume(labels={names.OWNER: self.owner})['Name']
        other = self.bare.create_volume()['Name']
        self.addCleanup(self.bare.remove_volume, other)
        found = {one.kind: one for one in driver.list_resources()}
        self.assertEqual(volume, found['volume'].id)
        self.assertEqual(network, found['network'].name)
        for resource in found.values():
            driver.delete_resource(resource)
            driver.delete_resource(resource)
        self.assertEqual([], list(driver.list_resources()))
        with self.assertRaises(PermissionDenied):
            driver.delete_resource(Resource(kind='volume', id=other, owner=self.owner))
        with self.assertRaises(InvalidRequest):
            driver.delete_resource(Resource(kind='port', id=other, owner=self.owner))

    def test_an_image_is_imported_once_and_can_have_two_names(self):
        driver = self.open_local()
        with tempfile.TemporaryDirectory() as folder:
            path = plain_tar(pathlib.Path(folder, 'plain.tar'))
            given = {
                'path': path,
                'command': COMMAND,
                'properties': {'os_distro': 'Debian 12 = old'},
            }
            first = driver.import_image(ImageFile(name='kiln-tests/twice:1', **given))
            self.assertEqual(
                first, driver.import_image(ImageFile(name='kiln-tests/twice:latest', **given))
            )
            with self.assertRaises(InvalidRequest):
                driver.import_image(ImageFile(name='../x', **given))
            with self.assertRaises(InvalidRequest):
                driver.import_image(ImageFile(name='x:1', path=pathlib.Path(folder, 'none.tar')))
        facts = driver.describe_image('kiln-tests/twice:latest')
        self.assertEqual((first, 'Debian 12 = old'), (facts.id, facts.properties['os_distro']))

    def test_the_check_names_engine_and_version(self):
        self.assertRegex(self.open_local().check().detail, r'^(Docker Engine|Podman) \d+\.')


class States(Case):
    """States, reboots and events."""

    def test_a_soft_reboot_returns_at_once_and_the_container_runs_again(self):
        driver = self.open_local(stop_timeout=2)
        made = self.build(driver)
        before = self.bare.inspect_container(made)['State']['StartedAt']
        driver.reboot(made)
        self.assertEqual('rebooting', driver.status(made).task_state)
        self.until(lambda: driver.status(made).ready, 'it is ready')
        self.assertNotEqual(before, self.bare.inspect_container(made)['State']['StartedAt'])

    def test_an_ended_container_has_the_reason(self):
        driver = self.open_local()
        made = self.build(driver)
        self.bare.kill(made)
        self.until(lambda: driver.status(made).state is State.STOPPED, 'it is stopped')
        self.assertIn('137', driver.status(made).fault)
        (listed,) = driver.list_amphorae()
        self.assertEqual(driver.get_amphora(amphora_id=made), listed)

    def test_the_console_log_is_the_output_of_the_command(self):
        driver = self.open_local()
        made = self.build(driver)
        self.until(lambda: driver.console_log(made) == 'up\n', 'the log is read')


class OnPodman:
    engine_kind = 'podman'


class PodmanContent(OnPodman, Content):
    pass


class PodmanShapes(OnPodman, Shapes):
    pass


class PodmanOwnership(OnPodman, Ownership):
    pass


class PodmanStates(OnPodman, States):
    pass


class Health(Case):
    """Health checks of the engine; Podman leaves them to systemd."""

    def test_a_container_is_ready_after_its_first_passed_health_check(self):
        config = {'Image': PLAIN, 'Labels': {names.OWNER: self.owner, names.KEY: 'k1'}}
        probe = {'Test': ['CMD-SHELL', 'test -e /ok'], 'Interval': 10**8, 'Retries': 2}
        made = self.bare.create_container_from_config(
            {**config, 'Healthcheck': probe}, name=self.owner
        )
        self.bare.start(made['Id'])
        driver = self.open_local()
        self.until(
            lambda: 'health check fails' in (driver.status(made['Id']).fault or ''),
            'the probe fails',
        )
        (listed,) = driver.list_amphorae()
        self.assertIs(listed.state, State.ERROR)
        started = self.bare.exec_create(made['Id'], ['sh', '-c', 'echo > /ok'])
        self.bare.exec_start(started['Id'])
        self.until(lambda: driver.status(made['Id']).ready, 'the probe passes')


class Events(Case):
    """Changes, from the engine's events."""

    def test_changes_come_from_events_without_a_list(self):
        driver = self.open_driver()
        kept, doomed = self.build(driver, 'k1'), self.build(driver, 'k2')
        cursor = driver.changes().cursor
        self.assertTrue(cursor)
        driver.delete(doomed)
        self.proxy.forget()
        told = driver.changes(cursor)
        self.assertEqual((False, (doomed,)), (told.complete, told.gone))
        self.assertEqual(0, self.proxy.count('GET', '/containers/json'))
        self.bare.kill(kept)
        self.until(
            lambda: [
                one.state for one in driver.changes(told.cursor).statuses if one.amphora_id == kept
            ] == [State.STOPPED],
            'the end of a container is reported',
        )  # fmt: skip


_CRASH = """
import os, sys
from kiln.compute_drivers.docker.building import builds
from tests.functional.docker.site import options_of
from kiln.compute_drivers.docker.driver import DockerDriver

class Mortal(builds.Builds):
    def {where}(self, *args):
        if {after}:
            super().{where}(*args)
        os.kill(os.getpid(), 9)

driver = DockerDriver.open(
    options_of(url={url!r}, image={image!r}), name='docker', owner={owner!r})
driver._builds = Mortal(driver._engine, driver._images, driver._settings, driver.clock)
driver.build('container', name='k1', build_key='k1', config_drive_files={files!r})
"""


class Crashes(Case):
    """Processes killed between the requests of a build."""

    def crash(self, where, *, after=False, files=None):
        code = _CRASH.format(
            where=where,
            after=after,
            files=files,
            url=self.place.url,
            image=PLAIN,
            owner=self.owner,
        )
        done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, check=False)
        self.assertEqual(-9, done.returncode)
        (left,) = self.containers()
        self.assertEqual('created', left['State'])
        return left['Id']

    def test_an_unstarted_container_is_started_by_a_search(self):
        left = self.crash('_start')
        driver = self.open_local()
        self.assertEqual(left, driver.find_build('k1').id)
        self.assertTrue(driver.status(left).ready)

    def test_a_container_without_its_files_is_finished_by_a_repeated_build(self):
        files = {'/etc/a': 'hello'}
        left = self.crash('_finish', files=files)
        driver = self.open_local()
        self.assertEqual(left, self.build(driver, config_drive_files=files))
        self.assertEqual('hello', self.said_in(left, 'cat', '/etc/a'))

    def test_a_container_without_its_files_is_removed_by_a_search(self):
        self.crash('_finish', files={'/etc/a': 'hello'})
        self.assertIsNone(self.open_local().find_build('k1'))
        self.assertEqual([], self.containers())

    def test_a_container_with_its_files_is_started_by_a_search(self):
        left = self.crash('_finish', after=True, files={'/etc/a': 'hello'})
        self.assertEqual(left, self.open_local().find_build('k1').id)
        self.assertEqual('hello', self.said_in(left, 'cat', '/etc/a'))


class PodmanCrashes(OnPodman, Crashes):
    pass
