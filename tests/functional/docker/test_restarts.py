"""Restarts of containers, and of engines under running containers."""

import os
import pathlib
import signal
import tempfile
import uuid

from kiln.compute_drivers.docker.building.addresses import free_address
from kiln.exceptions import ServiceUnavailable
from kiln.models import ImageFile, State
from kiln.testing.proxy import Answer
from tests.functional.docker.test_driver import Case, OnPodman
from tests.functional.engines import create_network, plain_tar, run


class Restarts(Case):
    """Which containers the engine restarts by itself."""

    def test_a_container_that_ends_by_itself_comes_back_with_its_address(self):
        driver = self.open_local()
        made = self.build(driver, network_ids=[self.network])
        address = driver.get_amphora(amphora_id=made).addresses[0].address
        self.until(lambda: driver.console_log(made) == 'up\n', 'it runs')
        os.kill(self.bare.inspect_container(made)['State']['Pid'], signal.SIGKILL)
        self.until(lambda: driver.console_log(made).count('up') == 2, 'it runs again')
        self.until(lambda: driver.status(made).ready, 'it is ready')
        self.assertEqual(address, driver.get_amphora(amphora_id=made).addresses[0].address)

    def test_a_container_killed_on_purpose_stays_stopped(self):
        driver = self.open_local()
        made = self.build(driver)
        self.bare.kill(made)
        self.until(lambda: driver.status(made).state is State.STOPPED, 'it is dead')
        driver.reboot(made)
        self.until(lambda: driver.status(made).ready, 'it runs again')

    def test_a_container_that_fails_repeatedly_is_in_error(self):
        driver = self.open_local()
        with tempfile.TemporaryDirectory() as folder:
            path = plain_tar(pathlib.Path(folder, 'plain.tar'))
            command = ('/bin/sh', '-c', 'exit 3')
            image = ImageFile(name='kiln-tests/failing:1', path=path, command=command)
            driver.import_image(image)
        made = self.build(driver, image_id=image.name)

        def failed():
            status = driver.status(made)
            said = 'ended with exit code 3' in (status.fault or '')
            return said and (status.state, status.task_state) == (State.ERROR, None)

        self.until(failed, 'a caller waiting for the container gets the reason')


class PodmanRestarts(OnPodman, Restarts):
    pass


class Addresses(Case):
    """Addresses that kiln chooses, so that they persist."""

    def pinned(self, container_id):
        hung = self.bare.inspect_container(container_id)['NetworkSettings']['Networks']
        return {
            name: (one.get('IPAMConfig') or {}).get('IPv4Address') for name, one in hung.items()
        }

    def test_an_address_on_a_network_with_a_subnet_persists(self):
        second = self.make_network()
        made = self.build(self.open_local(), network_ids=[self.network, second])
        found = {one.address for one in self.open_local().get_amphora(amphora_id=made).addresses}
        self.assertEqual(found, set(self.pinned(made).values()))

    def test_a_network_without_a_subnet_assigns_any_address(self):
        name = f'kit-{uuid.uuid4().hex[:8]}'
        made = create_network(self.bare, name)
        self.addCleanup(self.drop_network, made)
        driver = self.open_local()
        for key in ('k1', 'k2'):
            built = self.build(driver, key, network_ids=[name])
            self.assertEqual({name: None}, self.pinned(built))
            self.assertTrue(driver.get_amphora(amphora_id=built).addresses)
        self.assertEqual(2, len(self.containers()))

    def test_two_builds_that_choose_one_address_get_different_ones(self):
        address = free_address(self.bare.inspect_network(self.network), (), 'k2')
        driver = self.open_driver()
        first = self.build(driver, 'k1', network_ids=[f'{self.network}={address}'])
        # As if the first one took the address after the search for a free one.
        self.proxy.fault(Answer(200, body='[]'), 'GET', '/containers/json', times=1)
        second = self.build(driver, 'k2', network_ids=[self.network])
        found = self.pinned(second)[self.network]
        self.assertTrue(found)
        self.assertNotEqual(address, found)
        self.assertEqual({first, second}, {one['Id'] for one in self.containers()})


class PodmanAddresses(OnPodman, Addresses):
    """Podman assigns requested addresses on every network except its default one."""

    test_a_network_without_a_subnet_assigns_any_address = None

    def pinned(self, container_id):
        # Podman does not report which address was requested.
        hung = self.bare.inspect_container(container_id)['NetworkSettings']['Networks']
        return {name: one['IPAddress'] for name, one in hung.items()}


class Engines(Case):
    """A restarted engine: containers come back as they were."""

    def test_only_running_containers_come_back_and_with_their_addresses(self):
        driver, frail = self.open_driver(), self.open_driver(restart='no')
        made = [
            self.build(driver, f'k{number}', network_ids=[self.network]) for number in range(4)
        ]
        killed, once = self.build(driver, 'killed'), self.build(frail, 'once')
        self.bare.kill(killed)
        # A stopping engine resumes all containers, so that they can end.
        driver.suspend(made[0])
        before = self.addresses(driver, made)
        cursor = driver.changes().cursor
        run('docker', 'down')
        try:
            with self.assertRaises(ServiceUnavailable):
                driver.status(made[0])
        finally:
            run('docker', 'up')
        told = driver.changes(cursor)
        self.assertTrue(told.complete)
        states = {one.amphora_id: one.state for one in told.statuses}
        wanted = dict.fromkeys(made, State.ACTIVE)
        self.assertEqual({**wanted, killed: State.STOPPED, once: State.STOPPED}, states)
        self.assertEqual(before, self.addresses(driver, made))
        driver.reboot(once)
        self.until(lambda: driver.status(once).ready, 'it runs again')

    def addresses(self, driver, made):
        found = [driver.get_amphora(amphora_id=one) for one in made]
        return {one.id: [hung.address for hung in one.addresses] for one in found}
