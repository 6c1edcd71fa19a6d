"""Builds that an engine refuses, and what they leave."""

import io
import json
import tarfile
import urllib.parse

from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.docker import names
from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.exceptions import (
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InvalidBuildRequest,
    InvalidRequest,
    ServiceUnavailable,
)
from kiln.models import BuildRequest, State
from tests.hurrying_clock import HurryingClock
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_repeats import I, inspected
from tests.unit.compute_drivers.docker.test_settings import options

IMAGE = answer(json.dumps({'Id': f'sha256:{I}', 'Config': {}}).encode())
NONE = answer(b'{"message": "No such container: k1-1"}', status=404)
TAKEN = answer(
    b'{"message": "Conflict. The container name /k1 is already in use by container c1"}',
    status=409,
)
CREATED = answer(json.dumps(inspected(status='created')).encode())
MADE = answer(json.dumps({'Id': I}).encode(), status=201)
STARTED = REMOVED = answer(b'', status=204)
NO_COMMAND = answer(b'{"message": "OCI runtime create failed: no command specified"}', status=400)
BROKEN = answer(b'{"message": "the disk is made of cheese"}', status=500)


class Case(ScriptedCase):
    def open(self, *answers, **given):
        self.clock = HurryingClock()
        defaults = {'image': 'plain:1', 'flavors': 'small: 1 cpu', **given}
        conf = options(url=self.serve(VERSION, *answers), **defaults)
        driver = DockerDriver.open(conf, name='here', owner='site', clock=self.clock)
        self.addCleanup(driver.close)
        return driver

    def build(self, *answers, **given):
        return self.open(*answers).build('container', name='web', build_key='k1', **given)


class Made(Case):
    def test_a_refused_container_is_asked_for_once(self):
        refused = answer(b'{"message": "invalid reference format"}', status=400)
        with self.assertRaisesRegex(InvalidBuildRequest, 'Cannot build web: .*invalid reference'):
            self.build(NONE, IMAGE, refused)
        self.assertIn('POST /v1.41/containers/create', self.server.requests[-1])

    def test_a_build_that_is_certainly_the_first_looks_for_no_container(self):
        request = BuildRequest(build_key='k1', name='web', owner='site', fresh=True)
        self.assertEqual(I, self.open(IMAGE, MADE, STARTED).perform(Call.BUILD, request))

    def test_a_name_that_a_container_of_another_build_has_is_a_conflict(self):
        found = inspected()
        found['Config']['Labels'][names.KEY] = 'k2'
        with self.assertRaisesRegex(BuildConflict, 'in use by container aaaaaaaaaaaa of another'):
            self.build(answer(json.dumps(found).encode()))

    def test_what_a_build_names_is_looked_up_once(self):
        # Without a default image, only the request names one.
        driver = self.open(NONE, IMAGE, MADE, STARTED, image=None)
        self.assertEqual(I, driver.build('container', name='web', build_key='k1', image_id='a:1'))
        self.assertIn('/images/a:1/json', self.server.requests[2])
        self.assertEqual(5, len(self.server.requests))

    def test_on_each_network_the_host_name_leads_to_the_container(self):
        connected, folders = answer(b''), [answer(b'')] * 3
        driver = self.open(NONE, IMAGE, MADE, connected, *folders, answer(b''), STARTED)
        networks = ['n1=192.0.2.7', 'n2=198.51.100.7']
        driver.build('container', name='Wéb', build_key='k1', network_ids=networks)
        created, connected = map(json.loads, self.server.bodies[3:5])
        ends = created['NetworkingConfig']['EndpointsConfig']
        self.assertEqual({'n1': ['w-b']}, {name: end['Aliases'] for name, end in ends.items()})
        self.assertEqual(['w-b'], connected['EndpointConfig']['Aliases'])

    def test_what_a_build_does_not_name_is_by_the_options(self):
        driver = self.open(NONE, IMAGE, MADE, STARTED, flavor='small', networks=['none'])
        driver.build('container', name='web', build_key='k1')
        host = json.loads(self.server.bodies[3])['HostConfig']
        self.assertEqual((10**9, 'none'), (host['NanoCpus'], host['NetworkMode']))

    def test_a_flavor_that_does_not_exist_is_refused_with_those_that_do(self):
        for flavors, known in (('b: 1 cpu; a: 2 cpus', 'b, a'), ('', 'none')):
            driver = self.open(flavors=flavors)
            with self.assertRaisesRegex(InvalidRequest, f'the flavors are {known}\\.'):
                driver.validate_flavor('c')

    def test_a_name_that_stays_reserved_is_waited_for_by_the_clock_of_the_driver(self):
        tries = [TAKEN, NONE] * 8 + [TAKEN]
        with self.assertRaisesRegex(BuildConflict, 'its name is reserved') as caught:
            self.build(NONE, IMAGE, *tries)
        self.assertTrue(caught.exception.retryable)
        self.assertAlmostEqual(4.77, self.clock.monotonic())


class Started(Case):
    """A container that was made, but not started so far."""

    def test_it_is_removed_if_its_start_is_refused(self):
        with self.assertRaisesRegex(InvalidBuildRequest, 'no command specified'):
            self.build(CREATED, IMAGE, NO_COMMAND, REMOVED)
        self.assertIn(f'DELETE /v1.41/containers/{I}?v=True', self.server.requests[-1])

    def test_it_might_be_left_if_it_cannot_be_removed_either(self):
        with (
            self.assertLogs('kiln.compute_drivers.docker', 'WARNING') as logged,
            self.assertRaisesRegex(BuildOutcomeUnknown, 'no command specified'),
        ):
            self.build(CREATED, IMAGE, NO_COMMAND, BROKEN)
        self.assertIn('Cannot remove what build k1 left', logged.output[0])

    def test_it_might_run_if_the_answer_is_lost(self):
        with self.assertRaisesRegex(BuildOutcomeUnknown, 'might not have started'):
            self.build(CREATED, IMAGE, None)
        self.assertIn('/start', self.server.requests[-1])


class Found(Case):
    def test_a_container_that_is_removed_before_it_is_started_is_no_build(self):
        self.assertIsNone(self.open(CREATED, NONE).find_build('k1'))
        self.assertIn('/start', self.server.requests[-1])

    def test_a_container_that_did_not_start_is_not_started_again(self):
        found = inspected(status='created')
        found['State']['Error'] = 'no such file'
        driver = self.open(answer(json.dumps(found).encode()))
        self.assertIs(State.ERROR, driver.find_build('k1').state)

    def test_half_a_container_that_cannot_be_removed_is_the_failure_of_its_build(self):
        found = inspected(status='created')
        found['Config']['Labels'][names.UNFINISHED] = 'yes'
        nothing = answer(b'', status=404)
        driver = self.open(answer(json.dumps(found).encode()), nothing, BROKEN)
        with (
            self.assertLogs('kiln.compute_drivers.docker', 'WARNING'),
            self.assertRaises(ServiceUnavailable) as caught,
        ):
            driver.find_build('k1')
        self.assertEqual('k1', caught.exception.build_key)

    def test_a_name_that_no_container_has_is_no_build(self):
        self.assertIsNone(self.open(NONE).find_build('k1'))

    def test_a_container_of_another_owner_is_not_that_of_a_build(self):
        found = inspected(status='created')
        found['Config']['Labels'][names.OWNER] = 'elsewhere'
        driver = self.open(answer(json.dumps(found).encode()))
        self.assertIsNone(driver.find_build('k1'))
        self.assertEqual(2, len(self.server.requests))


class Listed(Case):
    def test_only_the_containers_of_the_site_are_asked_for(self):
        self.assertEqual([], list(self.open(answer(b'[]')).list_amphorae()))
        asked = urllib.parse.unquote_plus(self.server.requests[1])
        self.assertIn('{"label": ["kiln.owner=site"]}', asked)


class Deleted(Case):
    """A removal that the engine refuses."""

    def delete(self, refusal):
        running = answer(json.dumps(inspected()).encode())
        said = json.dumps({'message': refusal}).encode()
        self.open(running, answer(said, status=409)).delete(I)
        self.assertIn(f'DELETE /v1.41/containers/{I}?v=True', self.server.requests[-1])

    def test_it_is_a_success_while_another_removal_runs(self):
        self.delete(f'removal of container {I} is already in progress')

    def test_it_has_failed_if_the_engine_objects_to_the_state_of_the_container(self):
        with self.assertRaisesRegex(DeleteFailed, 'state improper') as caught:
            self.delete(f'container {I} cannot be removed: container state improper')
        self.assertEqual(I, caught.exception.amphora_id)


def packed(content):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode='w') as tar:
        member = tarfile.TarInfo('passwd')
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


class Accounts(Case):
    """Accounts of an image, for the owners of files."""

    def test_a_list_of_accounts_that_is_too_long_is_refused(self):
        folders = [answer(b'')] * 4
        long = answer(packed(b'x' * (1024 * 1024 + 1)), kind='application/x-tar')
        with self.assertRaises(InvalidBuildRequest) as caught:
            self.build(
                CREATED, IMAGE, *folders, long, REMOVED,
                config_drive_files={'/etc/a': (b'x', 0o600, 'web')},
            )  # fmt: skip
        self.assertIn(
            'its image has a /etc/passwd that cannot be read: the answer has more than 1048576',
            str(caught.exception),
        )
        self.assertIn('DELETE', self.server.requests[-1])
