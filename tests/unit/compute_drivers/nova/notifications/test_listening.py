"""Listening driver and its remaining requests, over a real connection and bus."""

import copy
import sys
import unittest

from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.compute_drivers.nova.notifications.cache import TRUSTED_S
from kiln.exceptions import AmphoraComputeError, ConfigurationError, InstanceNotFoundError
from kiln.models import State
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.nova.bus import URL, Exchange, until
from tests.unit.compute_drivers.nova.corpus import SERVERS
from tests.unit.compute_drivers.nova.loopback import Loopback
from tests.unit.compute_drivers.nova.written import written

FLAVOR = {'id': 'f-1', 'name': 'tiny'}
IMAGE = '4bfa4ff8-0632-421c-b662-4005c136db4b'
TAGS = ['kiln-key:k', 'kiln-site:kiln']
DETAIL = 'GET /servers/detail'


GONE = (404, {}, {'itemNotFound': {'code': 404, 'message': 'Instance a could not be found.'}})


def server(server_id, state, task_state=None, **more):
    """Return a server as Nova's API returns it."""
    shown = copy.deepcopy(SERVERS['building'])
    states = {'OS-EXT-STS:vm_state': state, 'OS-EXT-STS:task_state': task_state}
    return shown | {'id': server_id, 'name': server_id, 'tags': TAGS} | states | more


class ListeningCase(unittest.TestCase):
    url = URL

    def setUp(self):
        self.exchange = Exchange()
        self.addCleanup(self.exchange.close)
        image = {f'GET /v2/images/{IMAGE}': {'id': IMAGE, 'status': 'active'}}
        flavors = {'GET /flavors': {'flavors': [FLAVOR]}}
        self.cloud = Loopback({DETAIL: {'servers': []}, **flavors, **image})
        self.enterContext(self.cloud)
        self.clock = VirtualClock()
        conf = written(
            'auth_type = none', f'compute_endpoint_override = {self.cloud.url}',
            f'image_endpoint_override = {self.cloud.url}', 'microversion = 2.96',
            'flavor = tiny', f'image = {IMAGE}', f'notification_url = {self.url}',
            f'notification_exchange = {self.exchange.name}', 'notification_gather = 0.005',
        )  # fmt: skip
        self.driver = NovaDriver.open(conf, name='east', owner='kiln', clock=self.clock)
        self.addCleanup(self.driver.close)
        self.news = 0
        self.driver.on_news(self.hurry)

    def hurry(self):
        self.news += 1

    def connect(self):
        """Let the driver listen; it starts with the first request."""
        self.driver.changes()
        until(lambda: self.news == 1)
        self.cloud.queries.clear()

    def tell(self, event, server_id, **changes):
        """Send a notification, and wait until the driver has received it."""
        heard = self.driver.cursor()
        self.exchange.tell(event, server_id, **changes)
        until(lambda: self.driver.cursor() != heard)

    def build(self, server_id):
        self.cloud.answers['POST /servers'] = (202, {}, {'server': {'id': server_id}})
        self.assertEqual(server_id, self.driver.build(name=server_id))

    def states(self, *server_ids):
        found = self.driver.statuses(server_ids)
        return {server_id: status.state for server_id, status in found.items()}

    def changed(self, cursor):
        return [status.state for status in self.driver.changes(cursor).statuses]

    def asked(self):
        """Return the requests about servers since the last call."""
        found = [what for what, _ in self.cloud.queries if '/servers' in what]
        self.cloud.queries.clear()
        return found


class OneRequest(ListeningCase):
    def test_a_build_costs_one_request(self):
        self.connect()
        self.build('a')
        self.assertEqual({'a': State.PENDING}, self.states('a'))
        self.tell('instance.update', 'a', state='building', task_state='spawning', tags=TAGS)
        self.assertEqual({'a': State.BUILDING}, self.states('a'))
        self.tell('instance.create.end', 'a', tags=TAGS)
        self.assertEqual({'a': State.ACTIVE}, self.states('a'))
        self.assertEqual(['POST /servers'], self.asked())

    def test_many_builds_watched_by_a_cursor_cost_one_request_each(self):
        self.connect()
        cursor = self.driver.changes().cursor
        self.assertEqual([DETAIL], self.asked())
        names = [f's-{number}' for number in range(20)]
        for name in names:
            self.build(name)
            self.exchange.tell('instance.create.end', name, tags=TAGS)
        until(lambda: set(self.states(*names).values()) == {State.ACTIVE})
        changes = self.driver.changes(cursor)
        self.assertFalse(changes.complete)
        told = [(status.amphora_id, status.state) for status in changes.statuses]
        self.assertEqual([(name, State.ACTIVE) for name in names], told)
        self.assertEqual((), self.driver.changes(changes.cursor).statuses)
        self.assertEqual(20 * ['POST /servers'], self.asked())

    def test_a_current_cursor_saves_even_the_first_list(self):
        self.connect()
        cursor = self.driver.cursor()
        self.build('a')
        self.tell('instance.create.end', 'a', tags=TAGS)
        changes = self.driver.changes(cursor)
        self.assertEqual(['a'], [status.amphora_id for status in changes.statuses])
        self.assertEqual(['POST /servers'], self.asked())

    def test_a_check_of_the_backend_starts_listening(self):
        self.cloud.answers |= {'GET /servers': {'servers': []}}
        health = self.driver.check()
        self.assertEqual(1, self.news)
        self.assertEqual('microversion 2.96, listening, nothing heard so far', health.detail)

    def test_a_server_built_here_is_reported_before_its_notification(self):
        self.connect()
        cursor = self.driver.changes().cursor
        self.build('a')
        (status,) = self.driver.changes(cursor).statuses
        self.assertEqual(('a', State.PENDING), (status.amphora_id, status.state))

    def test_an_answer_does_not_replace_a_newer_notification(self):
        self.connect()
        answer = self.cloud.answer

        def tell_first(what, query):
            if what == 'POST /servers':
                self.tell('instance.create.end', 'a', tags=TAGS)
            return answer(what, query)

        self.cloud.answer = tell_first
        self.build('a')
        self.assertEqual({'a': State.ACTIVE}, self.states('a'))

    def test_a_server_found_by_its_key_is_requested(self):
        self.connect()
        self.cloud.answers[DETAIL] = {'servers': [server('a', 'active')]}
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'active')}
        self.assertEqual('a', self.driver.build(name='a', build_key='k'))
        self.asked()
        self.assertEqual({'a': State.ACTIVE}, self.states('a'))
        self.assertEqual(['GET /servers/a'], self.asked())

    def test_a_delete_is_reported_even_if_requested_elsewhere(self):
        self.connect()
        cursor = self.driver.changes().cursor
        self.asked()
        self.tell('instance.delete.end', 'a')
        self.assertEqual(('a',), self.driver.changes(cursor).gone)
        self.assertEqual({}, self.states('a'))
        self.assertEqual([], self.asked())

    def test_a_server_requested_once_is_followed_from_then_on(self):
        self.connect()
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'active')}
        self.assertEqual({'a': State.ACTIVE}, self.states('a'))
        self.tell('instance.suspend.end', 'a')
        self.assertEqual({'a': State.SUSPENDED}, self.states('a'))
        self.assertEqual(['GET /servers/a'], self.asked())

    def test_the_answer_to_one_reader_is_reported_to_all(self):
        self.connect()
        cursor = self.driver.cursor()
        self.build('a')
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'active')}
        self.assertEqual(State.ACTIVE, self.driver.status('a').state)
        self.assertEqual([State.ACTIVE], self.changed(cursor))
        self.cloud.answers['GET /servers/a'] = GONE
        with self.assertRaises(InstanceNotFoundError):
            self.driver.status('a')
        self.assertEqual(('a',), self.driver.changes(cursor).gone)
        self.assertEqual(['POST /servers', *2 * ['GET /servers/a']], self.asked())


class Errors(ListeningCase):
    def build_that_fails(self, event, **changes):
        """Send an error that Nova's API does not show so far; return the cursor before."""
        self.connect()
        cursor = self.driver.cursor()
        self.build('a')
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'building', 'spawning')}
        self.tell(event, 'a', **changes)
        # Waiting callers must poll at once.
        until(lambda: self.news == 2)
        return cursor

    def test_the_fault_of_a_failed_build_is_requested_once(self):
        self.connect()
        cursor = self.driver.changes().cursor
        self.build('a')
        self.asked()
        fault = {'message': 'No valid host was found. ', 'code': 500}
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'error', fault=fault)}
        self.tell('instance.update', 'a', state='error', task_state=None, tags=TAGS)
        (status,) = self.driver.changes(cursor).statuses
        self.assertEqual((State.ERROR, fault['message']), (status.state, status.fault))
        self.assertEqual({'a': State.ERROR}, self.states('a'))
        self.assertEqual(['GET /servers/a'], self.asked())

    def test_an_error_without_a_fault_is_also_requested_once(self):
        self.connect()
        self.build('a')
        self.asked()
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'error')}
        self.tell('instance.update', 'a', state='error', task_state=None, tags=TAGS)
        for _ in range(3):
            self.assertEqual({'a': State.ERROR}, self.states('a'))
        self.assertEqual(['GET /servers/a'], self.asked())

    def test_a_failed_attempt_on_one_host_does_not_end_the_build(self):
        cursor = self.build_that_fails('instance.create.error', tags=TAGS)
        self.assertEqual([State.BUILDING], self.changed(cursor))
        # On the next host.
        self.tell('instance.update', 'a', state='building', task_state='networking', tags=TAGS)
        self.asked()
        self.assertEqual([State.BUILDING], self.changed(cursor))
        self.assertEqual({'a': State.BUILDING}, self.states('a'))
        self.assertEqual([], self.asked())

    def test_after_a_failed_attempt_the_server_is_requested_until_its_state_is_certain(self):
        cursor = self.build_that_fails('instance.create.error', tags=TAGS)
        self.asked()
        for _ in range(2):
            changes = self.driver.changes(cursor)
            self.assertEqual([State.BUILDING], [one.state for one in changes.statuses])
            cursor = changes.cursor
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'error')}
        changes = self.driver.changes(cursor)
        self.assertEqual([State.ERROR], [one.state for one in changes.statuses])
        self.assertEqual(3 * ['GET /servers/a'], self.asked())
        self.driver.changes(changes.cursor)
        self.assertEqual({'a': State.ERROR}, self.states('a'))
        self.assertEqual([], self.asked())

    def test_a_server_without_a_valid_host_is_in_error_even_if_nova_shows_it_later(self):
        self.build_that_fails('compute_task.build_instances.error')
        self.assertEqual({'a': State.BUILDING}, self.states('a'))
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'error')}
        self.assertEqual({'a': State.ERROR}, self.states('a'))

    def test_a_server_of_another_owner_without_a_host_is_not_requested(self):
        self.connect()
        cursor = self.driver.cursor()
        self.exchange.tell('compute_task.build_instances.error', 'other')
        self.tell('instance.create.end', 'ours', tags=TAGS)
        self.assertEqual([State.ACTIVE], self.changed(cursor))
        self.assertEqual([], self.asked())

    def test_a_server_deleted_before_it_had_a_host_is_requested(self):
        self.connect()
        self.build('a')
        self.cloud.answers['DELETE /servers/a'] = (204, {}, '')
        self.cloud.answers['GET /servers/a'] = GONE
        self.driver.delete('a')
        self.assertEqual({'a': State.PENDING}, self.states('a'))
        self.asked()
        self.clock.advance(4)
        self.assertEqual({}, self.states('a'))
        self.assertEqual({}, self.states('a'))
        self.assertEqual(['GET /servers/a'], self.asked())

    def test_a_server_with_a_reported_end_is_not_requested_even_if_no_caller_waited(self):
        self.connect()
        self.build('a')
        self.build('b')
        self.cloud.answers['DELETE /servers/a'] = (204, {}, '')
        self.driver.delete('a')
        self.tell('instance.update', 'b', state='building', task_state='spawning', tags=TAGS)
        self.tell('instance.delete.end', 'a')
        self.asked()
        self.clock.advance(4)
        self.assertEqual({'b': State.BUILDING}, self.states('b'))
        self.assertEqual([], self.asked())

    def test_a_server_reported_as_deleting_is_waited_for(self):
        self.connect()
        self.build('a')
        self.cloud.answers['DELETE /servers/a'] = (204, {}, '')
        self.driver.delete('a')
        self.tell('instance.update', 'a', state='active', task_state='deleting', tags=TAGS)
        self.asked()
        self.clock.advance(4)
        self.assertEqual({'a': State.DELETING}, self.states('a'))
        self.assertEqual([], self.asked())


class Actions(ListeningCase):
    def test_reading_the_console_causes_no_doubt(self):
        self.connect()
        self.build('a')
        self.cloud.answers['POST /servers/a/action'] = {'output': 'booted'}
        self.assertEqual('booted', self.driver.console_log('a'))
        self.asked()
        self.assertEqual({'a': State.PENDING}, self.states('a'))
        self.assertEqual([], self.asked())

    def test_a_state_reported_before_an_action_is_uncertain_after_it(self):
        self.connect()
        self.build('a')
        self.tell('instance.create.end', 'a', tags=TAGS)
        self.assertEqual({'a': State.ACTIVE}, self.states('a'))
        self.cloud.answers['POST /servers/a/action'] = (202, {}, '')
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'active', 'rebooting')}
        self.driver.reboot('a')
        self.asked()
        (status,) = self.driver.statuses(['a']).values()
        self.assertEqual('rebooting', status.task_state)
        self.assertEqual(['GET /servers/a'], self.asked())

    def test_a_state_is_uncertain_after_a_lost_action_too(self):
        self.connect()
        self.build('a')
        self.tell('instance.create.end', 'a', tags=TAGS)
        self.cloud.answers['POST /servers/a/action'] = (502, {}, '')
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'suspended')}
        with self.assertRaises(AmphoraComputeError):
            self.driver.suspend('a')
        self.assertEqual({'a': State.SUSPENDED}, self.states('a'))


class Strangers(ListeningCase):
    def test_servers_of_other_owners_are_not_reported(self):
        self.connect()
        cursor = self.driver.changes().cursor
        for event, changes in (
            ('instance.create.end', {'tags': ['kiln-site:west']}),
            ('instance.create.end', {'tags': []}),
            ('instance.suspend.end', {}),
            ('instance.delete.end', {'metadata': {}}),
        ):
            self.exchange.tell(event, 'other', **changes)
        self.tell('instance.create.end', 'ours', tags=TAGS)
        changes = self.driver.changes(cursor)
        self.assertEqual(['ours'], [status.amphora_id for status in changes.statuses])
        self.assertEqual((), changes.gone)

    def test_a_server_of_another_owner_is_requested_each_time_and_never_reported(self):
        self.connect()
        cursor = self.driver.cursor()
        theirs = server('other', 'active', tags=['kiln-site:west'])
        self.cloud.answers['GET /servers/other'] = {'server': theirs}
        for _ in range(2):
            self.assertEqual({'other': State.ACTIVE}, self.states('other'))
        self.driver.status('other')
        self.assertEqual([], self.changed(cursor))
        self.assertEqual(3 * ['GET /servers/other'], self.asked())


class Doubt(ListeningCase):
    def test_only_the_result_of_a_build_hurries_a_poll_and_not_its_steps(self):
        self.connect()
        cursor = self.driver.cursor()
        self.tell('instance.update', 'a', state='building', task_state='spawning', tags=TAGS)
        self.assertEqual(1, self.news)
        self.assertEqual(
            ['a'], [status.amphora_id for status in self.driver.changes(cursor).statuses]
        )
        self.tell('instance.create.end', 'a', tags=TAGS)
        until(lambda: self.news == 2)
        self.tell('instance.update', 'a', state='active', task_state='deleting', tags=TAGS)
        self.assertEqual(2, self.news)

    def test_an_old_report_is_requested_again(self):
        self.connect()
        self.build('a')
        self.clock.advance(TRUSTED_S + 1)
        self.cloud.answers['GET /servers/a'] = {'server': server('a', 'active')}
        self.asked()
        self.assertEqual({'a': State.ACTIVE}, self.states('a'))
        self.assertEqual(['GET /servers/a'], self.asked())

    def test_nova_is_polled_once_in_a_while_for_lost_messages(self):
        self.connect()
        cursor = self.driver.changes().cursor
        self.asked()
        self.clock.advance(TRUSTED_S)
        self.cloud.answers[DETAIL] = {'servers': [server('a', 'active')]}
        changes = self.driver.changes(cursor)
        self.assertEqual(['a'], [status.amphora_id for status in changes.statuses])
        (_, query) = self.cloud.queries[-1]
        self.assertIn('changes-since', query)
        self.assertEqual((), self.driver.changes(changes.cursor).statuses)
        self.assertEqual([DETAIL], self.asked())

    def test_a_connected_bus_needs_no_list_of_built_servers(self):
        self.connect()
        self.assertIsNone(self.driver.reached(State.ACTIVE, self.driver.cursor()))
        self.assertEqual([], self.asked())

    def test_a_cursor_from_before_a_break_is_answered_by_nova(self):
        self.connect()
        moment, _, _ = self.driver.changes().cursor.partition('/')
        self.asked()
        for cursor in (f'{moment}/0123456789ab.7', f'{moment}/', moment):
            self.driver.changes(cursor)
            (_, query) = self.cloud.queries[-1]
            self.assertEqual(moment, query['changes-since'])
            self.assertEqual([DETAIL], self.asked())

    def test_a_notification_during_an_answer_is_reported_after_it(self):
        self.connect()

        def answer(what, query):
            self.tell('instance.create.end', 'a', tags=TAGS)
            return 200, {}, b'{"servers": []}'

        self.cloud.answer = answer
        changes = self.driver.changes()
        self.assertEqual((), changes.statuses)
        (status,) = self.driver.changes(changes.cursor).statuses
        self.assertEqual(State.ACTIVE, status.state)


class NotHeard(ListeningCase):
    # Nothing listens on the discard port.
    url = 'rabbit://kiln:Tr0ub4dor@127.0.0.1:9/'

    def test_without_the_bus_nova_is_polled(self):
        with self.assertLogs('kiln.compute_drivers.nova.notifications.bus', 'WARNING') as logs:
            self.build('a')
            self.cloud.answers['GET /servers/a'] = {'server': server('a', 'active')}
            self.assertEqual({'a': State.ACTIVE}, self.states('a'))
            self.assertEqual({'a': State.ACTIVE}, self.states('a'))
            cursor = self.driver.changes().cursor
            self.driver.changes(cursor)
            until(lambda: logs.output)
        self.assertEqual(['POST /servers', *2 * ['GET /servers/a'], DETAIL, DETAIL], self.asked())
        self.assertEqual(0, self.news)
        self.assertNotIn('Tr0ub4dor', repr(logs.output))

    def test_without_the_bus_built_servers_are_listed_by_ids(self):
        self.cloud.answers['GET /servers'] = {'servers': [{'id': 'a'}]}
        cursor = self.driver.cursor()
        self.assertEqual({'a'}, self.driver.reached(State.ACTIVE, cursor))
        ((_, query),) = self.cloud.queries
        self.assertEqual(cursor, f'{query["changes-since"]}/')


class Opening(unittest.TestCase):
    def test_without_a_url_the_driver_does_not_listen(self):
        conf = written('auth_type = none')
        driver = NovaDriver.open(conf, name='east', owner='kiln')
        self.addCleanup(driver.close)
        self.assertIs(NovaDriver, type(driver))

    def test_a_wrong_url_is_refused_at_once(self):
        conf = written('auth_type = none', 'notification_url = amqp:Tr0ub4dor')
        with self.assertRaises(ConfigurationError) as caught:
            NovaDriver.open(conf, name='east', owner='kiln')
        self.assertNotIn('Tr0ub4dor', str(caught.exception))

    def test_a_missing_library_is_named(self):
        conf = written('auth_type = none', f'notification_url = {URL}')
        # As if it were not installed; an import in a subprocess would take a second.
        nova = 'kiln.compute_drivers.nova'
        names = ('kombu', f'{nova}.notifications.listening', f'{nova}.notifications.bus')
        kept = {name: sys.modules.pop(name) for name in names if name in sys.modules}
        sys.modules['kombu'] = None
        try:
            with self.assertRaises(ConfigurationError) as caught:
                NovaDriver.open(conf, name='east', owner='kiln')
        finally:
            del sys.modules['kombu']
            sys.modules.update(kept)
        self.assertIn('kiln-compute[notifications]', str(caught.exception))


class Unreachable(ListeningCase):
    url = 'rabbit://kiln:Tr0ub4dor@127.0.0.1:1/'

    def test_a_check_names_the_broker_that_is_away_and_why(self):
        self.cloud.answers |= {'GET /servers': {'servers': []}}
        health = self.driver.check()
        self.assertTrue(health.healthy)
        self.assertIn('polled, no notifications from 127.0.0.1:1: ', health.detail)
        self.assertIn('onnection refused', health.detail)
        self.assertNotIn('Tr0ub4dor', health.detail)
