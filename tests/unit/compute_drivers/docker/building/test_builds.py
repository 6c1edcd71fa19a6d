"""Builds that an engine refuses, and what they leave."""

import json
import urllib.parse

from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.docker import names
from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceNotFoundError,
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
REFUSED = answer(b'{"message": "invalid reference format"}', status=400)
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
        with self.assertRaisesRegex(InvalidBuildRequest, 'Cannot build web: .*invalid reference'):
            self.build(NONE, IMAGE, REFUSED)
        self.assertIn('POST /v1.41/containers/create', self.server.requests[-1])

    def test_a_port_that_is_taken_is_no_reason_to_try_again(self):
        taken = answer(b'{"message": "port is already allocated"}', status=409)
        with self.assertRaisesRegex(BuildConflict, 'already allocated'):
            self.build(NONE, IMAGE, taken, NONE, taken)
        self.assertEqual(4, len(self.server.requests))

    def test_an_image_is_looked_up_again_only_if_the_engine_has_refused_the_container(self):
        for failed, again in ((REFUSED, True), (BROKEN, False)):
            driver = self.open(NONE, IMAGE, failed, NONE, *[IMAGE] * again, MADE, STARTED)
            with self.assertRaises(AmphoraComputeError):
                driver.build('container', name='web', build_key='k1')
            self.assertEqual(I, driver.build('container', name='web', build_key='k1'))

    def test_a_container_that_is_removed_while_it_is_made_might_have_been_made(self):
        with self.assertRaisesRegex(BuildOutcomeUnknown, 'it was removed at once') as caught:
            self.build(NONE, IMAGE, NONE)
        self.assertIsInstance(caught.exception.__cause__, InstanceNotFoundError)

    def test_a_build_without_an_image_is_refused_if_the_backend_has_none(self):
        with self.assertRaisesRegex(InvalidBuildRequest, 'has no default image'):
            self.open(NONE, image=None).build('container', name='web', build_key='k1')

    def test_a_container_is_made_of_its_image_by_name(self):
        self.build(NONE, IMAGE, MADE, STARTED)
        self.assertEqual('plain:1', json.loads(self.server.bodies[3])['Image'])

    def test_the_errors_of_a_build_name_it_as_its_caller_does(self):
        for answers in ((NONE, BROKEN), (NONE, IMAGE, REFUSED)):
            with self.assertRaisesRegex(AmphoraComputeError, 'Cannot build Wéb: '):
                self.open(*answers).build('container', name='Wéb', build_key='k1')

    def test_a_build_that_nothing_stops_waits_for_nothing(self):
        self.build(NONE, IMAGE, MADE, STARTED)
        self.assertEqual(0, self.clock.monotonic())

    def test_what_was_chosen_is_kept_while_the_name_is_reserved(self):
        network = answer(b'{"Id": "n-1", "Driver": "overlay"}')
        answers = NONE, IMAGE, network, TAKEN, NONE, MADE, STARTED
        self.assertEqual(I, self.build(*answers, network_ids=['n1']))

    def test_a_build_that_is_certainly_the_first_looks_for_no_container(self):
        request = BuildRequest(build_key='k1', name='web', owner='site', fresh=True)
        self.assertEqual(I, self.open(IMAGE, MADE, STARTED).perform(Call.BUILD, request))

    def test_a_name_that_a_container_of_another_build_has_is_a_conflict(self):
        for label in names.KEY, names.OWNER:
            found = inspected()
            found['Config']['Labels'][label] = 'other'
            with self.assertRaisesRegex(BuildConflict, 'by container aaaaaaaaaaaa of another'):
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

    def test_the_other_networks_are_connected_in_the_order_of_the_build(self):
        # It is the order of the interfaces in the container.
        done = answer(b'')
        driver = self.open(NONE, IMAGE, MADE, *[done] * 2, *[done] * 3, done, STARTED)
        networks = ['n1=192.0.2.7', 'n3=2001:db8::7', 'n2=198.51.100.7']
        driver.build('container', name='web', build_key='k1', network_ids=networks)
        self.assertIn('/networks/n3/connect', self.server.requests[4])
        self.assertIn('/networks/n2/connect', self.server.requests[5])
        addresses = [
            json.loads(body)['EndpointConfig']['IPAMConfig'] for body in self.server.bodies[4:6]
        ]
        self.assertEqual(
            [{'IPv6Address': '2001:db8::7'}, {'IPv4Address': '198.51.100.7'}], addresses
        )

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
            self.assertRaisesRegex(BuildOutcomeUnknown, 'no command specified') as caught,
        ):
            self.build(CREATED, IMAGE, NO_COMMAND, BROKEN)
        self.assertIn(f'Cannot remove what build k1 left: Cannot delete {I}: ', logged.output[0])
        self.assertIsInstance(caught.exception.__cause__, InvalidBuildRequest)

    def test_it_might_run_if_the_answer_is_lost(self):
        with self.assertRaisesRegex(BuildOutcomeUnknown, 'might not have started') as caught:
            self.build(CREATED, IMAGE, None, REMOVED)
        self.assertIn('/start', self.server.requests[-1])
        self.assertIsInstance(caught.exception.__cause__, ServiceUnavailable)

    def test_nothing_is_left_if_somebody_else_removes_it_first(self):
        with self.assertRaisesRegex(InvalidBuildRequest, 'no command specified'):
            self.build(CREATED, IMAGE, NO_COMMAND, NONE)

    def test_another_one_is_made_if_it_is_removed_before_it_is_started(self):
        made = answer(json.dumps({'Id': 'b' * 64}).encode(), status=201)
        self.assertEqual('b' * 64, self.build(CREATED, IMAGE, NONE, NONE, IMAGE, made, STARTED))


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

    def test_a_container_is_removed_as_half_made_only_if_the_engine_says_so(self):
        found = inspected(status='created')
        found['Config']['Labels'][names.UNFINISHED] = 'yes'
        left = answer(json.dumps(found).encode())
        for status in 500, 503:
            driver = self.open(left, answer(b'', status=status), BROKEN, REMOVED)
            with self.assertRaisesRegex(ServiceUnavailable, 'made of cheese'):
                driver.find_build('k1')
            self.assertEqual(['HEAD', 'GET'], [one.split()[0] for one in self.server.requests[2:]])

    def test_a_container_that_another_process_has_finished_is_no_longer_half_made(self):
        found = inspected(status='created')
        found['Config']['Labels'][names.UNFINISHED] = 'yes'
        left, nothing = answer(json.dumps(found).encode()), answer(b'', status=404)
        running = answer(json.dumps(inspected()).encode())
        driver = self.open(left, nothing, BROKEN, left, answer(b''), STARTED, running)
        with (
            self.assertLogs('kiln.compute_drivers.docker', 'WARNING'),
            self.assertRaises(ServiceUnavailable),
        ):
            driver.find_build('k1')
        self.assertIs(State.ACTIVE, driver.find_build('k1').state)

    def test_a_container_that_ran_before_is_returned_as_it_is(self):
        for status in 'running', 'exited', 'paused':
            driver = self.open(answer(json.dumps(inspected(status=status)).encode()))
            self.assertEqual(I, driver.find_build('k1').id)

    def test_each_search_asks_the_engine(self):
        driver = self.open(NONE, answer(json.dumps(inspected()).encode()))
        self.assertIsNone(driver.find_build('k1'))
        self.assertEqual(I, driver.find_build('k1').id)

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
