"""The client of Ironic: endpoints, versions, pages, locks and credentials."""

import base64
import json
import logging
import unittest

from kiln.clock import Deadline, deadline_scope
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic.api.client import HISTORY, NEWEST, Ironic, minor
from kiln.compute_drivers.ironic.driver import IronicDriver
from kiln.exceptions import (
    AuthenticationFailed,
    ConfigurationError,
    InstanceStateConflict,
    ServiceTimeout,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.openstack.session import open_session
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.ironic.test_errors import LOCKED
from tests.unit.compute_drivers.ironic.written import written
from tests.unit.compute_drivers.nova.loopback import Loopback

ASKED = Asked.about('reboot', 'a-1')
LOWEST, HIGHEST = (f'X-OpenStack-Ironic-API-{end}-Version' for end in ('Minimum', 'Maximum'))
USED = 'X-OpenStack-Ironic-API-Version'


def speaking(lowest='1.1', highest='1.115'):
    return 200, {LOWEST: lowest, HIGHEST: highest}, {'id': 'v1'}


def fault(status, said):
    return status, {}, {'error_message': json.dumps({'faultstring': said})}


class RestlessClock(VirtualClock):
    """A clock on which a sleep takes no real time."""

    def sleep(self, seconds):
        self.advance(seconds)


class Client(unittest.TestCase):
    def setUp(self):
        self.clock = RestlessClock()
        self.service = self.enterContext(Loopback({'GET /v1': speaking()}))

    def client(self, *lines, auth='none'):
        url = f'baremetal_endpoint_override = {self.service.url}'
        conf = written(f'auth_type = {auth}', url, *lines)
        session, region = open_session(conf)
        client = Ironic(conf, session, region=region, clock=self.clock)
        self.addCleanup(client.close)
        return client

    def sent(self, what):
        return [headers for one, headers, _ in self.service.asked if one == what]


class Versions(Client):
    def test_the_highest_version_that_both_have_is_used_and_negotiated_once(self):
        for highest, used in (('1.84', '1.84'), ('1.900', NEWEST)):
            self.service.answers = {'GET /v1': speaking(highest=highest), 'GET /v1/nodes': {}}
            self.service.asked.clear()
            client = self.client()
            for _ in range(2):
                client.ask(ASKED, 'GET', '/nodes')
            self.assertEqual({used}, {one[USED] for one in self.sent('GET /v1/nodes')})
            self.assertEqual(1, len(self.sent('GET /v1')))

    def test_an_ironic_that_is_too_old_is_refused_in_one_sentence(self):
        self.service.answers['GET /v1'] = speaking(highest='1.68')
        with self.assertRaises(UnsupportedOperation) as caught:
            self.client().ask(ASKED, 'GET', '/nodes')
        self.assertEqual(
            f'Cannot reboot a-1: Ironic at {self.service.url}/v1 has microversions 1.1 to 1.68; '
            f'kiln needs one of 1.69 to {NEWEST}.',
            str(caught.exception),
        )

    def test_something_else_at_the_address_is_not_taken_for_ironic(self):
        self.service.answers['GET /v1'] = {'id': 'v1'}
        with self.assertRaisesRegex(ServiceUnavailable, 'what answers at .* is not Ironic'):
            self.client().ask(ASKED, 'GET', '/nodes')

    def test_a_version_can_be_pinned_within_the_range(self):
        self.service.answers['GET /v1/nodes'] = {}
        self.client('microversion = 1.75').ask(ASKED, 'GET', '/nodes')
        self.assertEqual('1.75', self.sent('GET /v1/nodes')[0][USED])
        self.assertEqual([], self.sent('GET /v1'))
        with self.assertRaisesRegex(ConfigurationError, 'must be from 1.69'):
            self.client('microversion = 1.60')

    def test_after_an_upgrade_another_version_is_negotiated(self):
        client = self.client()
        self.service.answers['GET /v1/nodes'] = fault(406, 'Version 1.115 is not supported')
        with self.assertRaises(UnsupportedOperation):
            client.ask(ASKED, 'GET', '/nodes')
        self.service.answers |= {'GET /v1': speaking(highest='1.90'), 'GET /v1/nodes': {}}
        client.ask(ASKED, 'GET', '/nodes')
        self.assertEqual('1.90', self.sent('GET /v1/nodes')[-1][USED])

    def test_the_number_of_a_version_is_behind_its_dot(self):
        self.assertEqual((HISTORY, 9, 0), (minor('1.78'), minor('1.9'), minor('nonsense')))


class Endpoints(Client):
    def test_an_endpoint_can_have_its_version(self):
        self.service.answers['GET /v1/nodes'] = {'nodes': []}
        conf = written('auth_type = none', f'baremetal_endpoint_override = {self.service.url}/v1/')
        session, region = open_session(conf)
        client = Ironic(conf, session, region=region, clock=self.clock)
        self.addCleanup(client.close)
        self.assertEqual({'nodes': []}, client.ask(ASKED, 'GET', '/nodes'))

    def test_without_a_catalogue_the_endpoint_must_be_set(self):
        conf = written('auth_type = none')
        session, region = open_session(conf)
        client = Ironic(conf, session, region=region, clock=self.clock)
        self.addCleanup(client.close)
        with self.assertRaisesRegex(
            ServiceUnavailable, 'Set baremetal_endpoint_override'
        ) as caught:
            client.ask(ASKED, 'GET', '/nodes')
        self.assertFalse(caught.exception.retryable)


class Credentials(Client):
    def test_http_basic_sends_a_name_and_a_password(self):
        self.service.answers['GET /v1/nodes'] = {}
        client = self.client('username = kiln', 'password = s3cret', auth='http_basic')
        client.ask(ASKED, 'GET', '/nodes')
        sent = self.sent('GET /v1/nodes')[0]['Authorization']
        self.assertEqual('Basic ' + base64.b64encode(b'kiln:s3cret').decode(), sent)

    def test_wrong_credentials_are_named_as_that(self):
        self.service.answers['GET /v1/nodes'] = 401, {}, {'error': {'message': 'Wrong password'}}
        client = self.client('username = kiln', 'password = s3cret', auth='http_basic')
        with self.assertRaisesRegex(AuthenticationFailed, 'Wrong password') as caught:
            client.ask(ASKED, 'GET', '/nodes')
        self.assertNotIn('s3cret', str(caught.exception))


class Locks(Client):
    def test_a_request_is_repeated_until_the_node_is_unlocked(self):
        answers = iter([fault(409, LOCKED), fault(409, LOCKED), (202, {}, '')])
        self.service.answers['PUT /v1/nodes/n/states/power'] = lambda _: next(answers)
        self.client().ask(ASKED, 'PUT', '/nodes/n/states/power', body={'target': 'power on'})
        self.assertEqual(3, len(self.sent('PUT /v1/nodes/n/states/power')))

    def test_a_node_that_stays_locked_is_a_conflict_that_passes(self):
        self.service.answers['PUT /v1/nodes/n/states/power'] = fault(409, LOCKED)
        with self.assertRaisesRegex(InstanceStateConflict, 'is locked by host') as caught:
            self.client('lock_wait = 2').ask(ASKED, 'PUT', '/nodes/n/states/power')
        self.assertTrue(caught.exception.retryable)
        self.assertAlmostEqual(2.0, self.clock.monotonic(), delta=0.3)

    def test_a_lock_is_not_waited_for_past_the_deadline_of_the_call(self):
        self.service.answers['PUT /v1/nodes/n/states/power'] = fault(409, LOCKED)
        client = self.client()
        with (
            deadline_scope(Deadline.after(1.0, self.clock)),
            self.assertRaises(InstanceStateConflict),
        ):
            client.ask(ASKED, 'PUT', '/nodes/n/states/power')
        self.assertLess(self.clock.monotonic(), 1.0)

    def test_a_name_that_is_taken_is_not_a_lock(self):
        said = fault(409, 'An allocation with name kiln-1 already exists.')
        self.service.answers['POST /v1/allocations'] = said
        with self.assertRaises(InstanceStateConflict):
            self.client().ask(ASKED, 'POST', '/allocations', body={})
        self.assertEqual(1, len(self.sent('POST /v1/allocations')))

    def test_nothing_is_sent_after_the_deadline(self):
        client = self.client('microversion = 1.100')
        deadline = Deadline.after(1.0, self.clock)
        self.clock.advance(2.0)
        with deadline_scope(deadline), self.assertRaises(ServiceTimeout):
            client.ask(ASKED, 'GET', '/nodes')
        self.assertEqual([], self.service.asked)


class Pages(Client):
    def test_all_pages_of_a_list_are_read_however_short_they_are(self):
        rows = [{'uuid': f'n-{at}'} for at in range(5)]

        def page(query):
            begin = int(query.get('marker', 'n--1')[2:]) + 1
            more = {'next': 'somewhere'} if begin + 2 < len(rows) else {}
            return {'nodes': rows[begin : begin + 2], **more}

        self.service.answers['GET /v1/nodes'] = page
        found = list(self.client().pages(ASKED, '/nodes', 'nodes', {'fields': 'uuid'}))
        self.assertEqual(rows, found)
        queries = [query for what, query in self.service.queries if what == 'GET /v1/nodes']
        self.assertEqual(['1000'] * 3, [query['limit'] for query in queries])
        self.assertEqual(['uuid'] * 3, [query['fields'] for query in queries])

    def test_a_list_that_is_no_list_is_not_an_empty_one(self):
        for answer in ({}, {'nodes': None}, [], {'nodes': 'x'}):
            self.service.answers['GET /v1/nodes'] = answer
            with self.assertRaisesRegex(ServiceUnavailable, 'not Ironic'):
                list(self.client().pages(ASKED, '/nodes', 'nodes', {}))


class Secrets(Client):
    def test_nothing_that_is_sent_is_logged(self):
        self.service.answers['PUT /v1/nodes/n/states/provision'] = 202, {}, ''
        with self.assertLogs(level=logging.DEBUG) as logs:
            self.client().ask(
                ASKED, 'PUT', '/nodes/n/states/provision',
                body={'target': 'active', 'configdrive': {'user_data': 's3cret'}},
            )  # fmt: skip
        self.assertNotIn('s3cret', ' '.join(logs.output))


class Opening(unittest.TestCase):
    def test_a_driver_opens_without_using_the_network(self):
        conf = written('auth_type = none', 'baremetal_endpoint_override = http://127.0.0.1:9')
        driver = IronicDriver.open(conf, name='bare', owner='site')
        self.addCleanup(driver.close)
        self.assertEqual(('bare', 'site'), (driver.name, driver.owner))
