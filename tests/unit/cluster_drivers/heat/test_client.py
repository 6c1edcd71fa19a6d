"""Client of Heat: answers become values or errors, whatever answers."""

import types
import unittest

from keystoneauth1 import exceptions as ksa

from kiln.cluster_drivers.heat.client import HeatClient, _unanswered
from kiln.cluster_drivers.heat.errors import (
    HeatRefused,
    HeatUnavailable,
    StackExists,
    StackNotFound,
    refused,
)
from kiln.cluster_drivers.heat.mappings import Definition
from kiln.cluster_drivers.heat.settings import settings_of
from kiln.clusters.exceptions import ClusterDriverError
from kiln.exceptions import KNOWN_SECRETS
from kiln.openstack.replies import Reply
from tests.unit.cluster_drivers.heat.fake_heat import WORK_S, FakeHeat
from tests.unit.cluster_drivers.heat.made import client_settings

TEMPLATE = {
    'heat_template_version': '2018-08-31', 'parameters': {}, 'resources': {}, 'outputs': {},
}  # fmt: skip
EMPTY = Definition(template=TEMPLATE, files={}, params={}, shown={})


class ClientCase(unittest.TestCase):
    def setUp(self):
        self.heat = self.enterContext(FakeHeat())
        self.client = self.opened()

    def opened(self, **settings):
        client = HeatClient(client_settings(self.heat.url, **settings))
        self.addCleanup(client.close)
        return client


class Unanswered(unittest.TestCase):
    """What keystoneauth raises instead of an answer."""

    def test_a_refusal_of_keystone_has_its_words(self):
        response = types.SimpleNamespace(
            json=lambda: {'error': {'message': 'The token is too old.', 'code': 401}},
            headers={'Content-Type': 'application/json'}, content=b'{}', text='{}',
        )  # fmt: skip
        for given in (response, None):
            error = _unanswered('list stacks', ksa.Unauthorized(response=given, http_status=401))
            self.assertIsInstance(error, ClusterDriverError)
            self.assertIn('list stacks', str(error))

    def test_a_catalogue_without_heat_is_told(self):
        error = _unanswered('list stacks', ksa.EndpointNotFound())
        self.assertEqual('Cannot list stacks: the catalogue has no Heat.', error.reason)
        self.assertFalse(error.retryable)

    def test_a_token_that_cannot_be_had_is_told(self):
        error = _unanswered('list stacks', ksa.MissingAuthPlugin())
        self.assertIn('Keystone gave no token', str(error))

    def test_a_connection_that_fails_has_its_reason(self):
        for error in (ksa.ConnectFailure('gone'), ksa.DiscoveryFailure('gone')):
            self.assertIn('gone', str(_unanswered('list stacks', error)))


class Requests(ClientCase):
    def test_a_stack_is_created_listed_updated_and_deleted(self):
        made = self.client.create('one', EMPTY, ['a', 'b'], 61.0)
        self.heat.work(WORK_S)
        (row,) = self.client.stacks(tags='a')
        self.assertEqual((made.id, 'CREATE', 'COMPLETE', ('a', 'b')),
                         (row.id, row.action, row.status, row.tags))  # fmt: skip
        self.client.update('one', row.id, EMPTY, ['c'], 60.0)
        self.assertEqual(('c',), self.client.named('one').tags)
        self.client.delete('one', row.id)
        self.heat.work(WORK_S)
        self.assertIsNone(self.client.named('one'))

    def test_a_list_is_read_page_by_page(self):
        for number in range(5):
            self.client.create(f'n{number}', EMPTY, ['a'], 60.0)
        small = HeatClient(client_settings(self.heat.url), page=2)
        self.addCleanup(small.close)
        self.heat.requests.clear()
        found = [row.name for row in small.stacks(tags='a')]
        self.assertEqual([f'n{n}' for n in range(5)], found)
        self.assertEqual(3, len(self.heat.requests))

    def test_a_name_that_is_taken_is_told_apart(self):
        self.client.create('one', EMPTY, [], 60.0)
        with self.assertRaisesRegex(StackExists, 'Cannot create stack one: Heat answered 409'):
            self.client.create('one', EMPTY, [], 60.0)

    def test_a_stack_that_does_not_exist_is_told_apart(self):
        with self.assertRaisesRegex(StackNotFound, 'Cannot delete stack one: Heat answered 404'):
            self.client.delete('one', 'x')


class Connections(ClientCase):
    def test_a_token_that_has_ended_is_renewed(self):
        url = self.heat.url.rpartition('/v1')[0] + '/v3'
        client = self.opened(
            auth_type='v3password', auth_url=url, username='u', user_domain_name='d',
            password='p',
        )  # fmt: skip
        self.assertIsNone(client.named('one'))
        self.heat.token = 'another'
        self.assertIsNone(client.named('one'))
        paths = [path for _, path in self.heat.requests]
        self.assertEqual(2, sum(path == '/v3/auth/tokens' for path in paths))

    def test_a_heat_that_is_gone_is_unavailable_with_the_reason(self):
        self.heat.__exit__()
        self.addCleanup(self.heat.__enter__)
        with self.assertRaisesRegex(HeatUnavailable, 'Cannot list stacks: connection refused'):
            self.client.named('one')

    def test_what_is_not_heat_is_unavailable_and_never_gone(self):
        self.heat.away = True
        with self.assertRaisesRegex(HeatUnavailable, 'something in front of Heat'):
            self.client.named('one')

    def test_credentials_that_are_incomplete_are_refused_before_a_request(self):
        with self.assertRaisesRegex(ClusterDriverError, 'credentials for Heat cannot be used'):
            self.opened(auth_type='password')
        self.assertEqual([], self.heat.requests)


class Settings(unittest.TestCase):
    def refused(self, document):
        with self.assertRaises(ClusterDriverError) as caught:
            settings_of(document)
        return str(caught.exception)

    def test_options_are_read_with_their_types_and_defaults(self):
        found = client_settings('http://heat', insecure='true', valid_interfaces='[public]')
        self.assertIs(True, found.insecure)
        self.assertEqual(['public'], found.valid_interfaces)
        self.assertEqual((5.0, 10.0), (found.timeout, found.connect_timeout))

    def test_names_with_dashes_are_the_same(self):
        self.assertEqual('http://k', settings_of('auth-url: http://k').auth_url)

    def test_its_secrets_are_masked_wherever_they_are_quoted(self):
        settings_of('username: maria\npassword: one-of-hers')
        self.assertEqual('maria, ***', KNOWN_SECRETS.masked('maria, one-of-hers'))

    def test_a_mistake_is_told_without_a_value(self):
        for document, told in (
            ('s3cret', 'are not a mapping of options'),
            ('[s3cret]', 'are not a mapping of options'),
            ('password: [s3cret', 'are not a mapping of options'),
            ('pasword: s3cret', 'Did you mean password?'),
            ('s3cret: 1', 'an option that does not exist'),
            ('timeout: s3cret', 'a wrong value of timeout'),
            ('timeout: -1', 'a wrong value of timeout'),
        ):
            with self.subTest(document):
                text = self.refused(document)
                self.assertIn(told, text)
                self.assertNotIn('s3cret', text)


def reply(status, kind='', message='no', body=None):
    found = {'error': {'type': kind, 'message': message}} if body is None else body
    return Reply(service='orchestration', status=status, headers={}, body=found)


class Errors(unittest.TestCase):
    def test_each_answer_has_its_error(self):
        for found, kind, retryable in (
            (reply(400, 'StackValidationFailed'), HeatRefused, False),
            (reply(401), HeatRefused, False),
            (reply(403, 'Forbidden'), HeatRefused, False),
            (reply(404, 'EntityNotFound'), StackNotFound, False),
            (reply(409, 'StackExists'), StackExists, False),
            (reply(409, 'ActionInProgress'), HeatUnavailable, True),
            (reply(429), HeatUnavailable, True),
            (reply(500, 'Exception'), HeatUnavailable, True),
            (reply(503), HeatUnavailable, True),
            (reply(404, body='<html>'), HeatUnavailable, True),
            (reply(300, body=None), HeatRefused, False),
        ):
            with self.subTest(found):
                error = refused('read stack one', found)
                self.assertIs(kind, type(error))
                self.assertIs(retryable, error.retryable)
                self.assertTrue(str(error).startswith('Cannot read stack one: '))
