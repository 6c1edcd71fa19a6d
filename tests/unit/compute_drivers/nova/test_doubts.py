"""Servers adopted after a doubt are not reported ACTIVE before a check of ports."""

import copy
import unittest

from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.exceptions import AmphoraComputeError
from kiln.models import State
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.nova.corpus import SERVERS
from tests.unit.compute_drivers.nova.loopback import Loopback
from tests.unit.compute_drivers.nova.written import written

IMAGE = '4bfa4ff8-0632-421c-b662-4005c136db4b'
DETAIL = 'GET /servers/detail'
AWAY = (503, {}, '<html>away</html>')
GONE = {'status': 'DELETED', 'OS-EXT-STS:vm_state': 'deleted'}
PORT = {'interfaceAttachments': [{'port_id': 'p-1'}]}


def active(server_id, key):
    states = {'OS-EXT-STS:vm_state': 'active', 'OS-EXT-STS:task_state': None, 'status': 'ACTIVE'}
    tags = [f'kiln-key:{key}', 'kiln-site:kiln']
    return (
        copy.deepcopy(SERVERS['building'])
        | {'id': server_id, 'name': server_id, 'tags': tags}
        | states
    )


class DoubtsCase(unittest.TestCase):
    """Two servers that were found after the answers to their builds were lost."""

    def setUp(self):
        self.clock = VirtualClock()
        flavors = {'flavors': [{'id': 'f-1', 'name': 'tiny'}]}
        self.cloud = Loopback({'GET /flavors': flavors}, clock=self.clock)
        self.enterContext(self.cloud)
        conf = written(
            'auth_type = none', f'compute_endpoint_override = {self.cloud.url}',
            f'image_endpoint_override = {self.cloud.url}', 'microversion = 2.96',
            'flavor = tiny', f'image = {IMAGE}',
        )  # fmt: skip
        self.driver = NovaDriver.open(conf, name='east', owner='kiln', clock=self.clock)
        self.addCleanup(self.driver.close)
        # The answers to two builds were lost, and both were found later.
        self.cloud.answers['POST /servers'] = (502, {}, '<html>lost</html>')
        for server_id in ('a', 'b'):
            self.cloud.answers[DETAIL] = {'servers': []}
            with self.assertRaises(AmphoraComputeError):
                self.driver.build(name=server_id, build_key=server_id)
            self.cloud.answers[DETAIL] = {'servers': [active(server_id, server_id)]}
            self.cloud.answers[f'GET /servers/{server_id}/os-interface'] = AWAY
            self.driver.build(name=server_id, build_key=server_id)
            self.clock.advance(1)
        servers = [active(one, one) for one in ('a', 'b', 'c')]
        self.cloud.answers[DETAIL] = {'servers': servers}
        self.cloud.queries.clear()


class Doubts(DoubtsCase):
    def ready(self):
        changes = self.driver.changes()
        self.assertEqual({State.ACTIVE}, {status.state for status in changes.statuses})
        return [status.amphora_id for status in changes.statuses if status.ready]

    def told_ready(self, cursor):
        changes = self.driver.changes(cursor)
        return sorted(status.amphora_id for status in changes.statuses if status.ready)

    def asked(self):
        found = [what for what, _ in self.cloud.queries if what.endswith('os-interface')]
        self.cloud.queries.clear()
        return found

    def test_a_failed_check_discards_no_other_answer_and_causes_no_second_request(self):
        self.assertEqual(['c'], self.ready())
        self.assertEqual(1, len(self.asked()))

    def test_the_check_is_repeated_with_the_next_poll(self):
        self.ready()
        self.clock.advance(1)
        self.cloud.answers['GET /servers/a/os-interface'] = PORT
        self.assertEqual(['a', 'c'], self.ready())
        self.clock.advance(1)
        self.cloud.answers['GET /servers/b/os-interface'] = PORT
        self.assertEqual(['a', 'b', 'c'], self.ready())

    def test_the_check_is_repeated_even_if_nova_reports_no_change(self):
        cursor = self.driver.changes().cursor
        self.clock.advance(1)
        self.cloud.answers[DETAIL] = {'servers': []}
        for server_id in ('a', 'b'):
            self.cloud.answers[f'GET /servers/{server_id}'] = {'server': active(server_id, 'k')}
        self.cloud.answers['GET /servers/b/os-interface'] = PORT
        # The check of the first fails again, and the second waits for the next poll.
        self.assertEqual([], self.told_ready(cursor))
        self.clock.advance(1)
        self.cloud.answers['GET /servers/a/os-interface'] = PORT
        self.assertEqual(['a', 'b'], self.told_ready(cursor))

    def test_a_proven_state_is_reported_until_the_answer_has_arrived(self):
        cursor = self.driver.changes().cursor
        self.clock.advance(1)
        self.cloud.answers[DETAIL] = {'servers': []}
        for server_id in ('a', 'b'):
            self.cloud.answers[f'GET /servers/{server_id}'] = {'server': active(server_id, 'k')}
            self.cloud.answers[f'GET /servers/{server_id}/os-interface'] = PORT
        for _ in range(3):
            # All of these answers but the last are lost in transit.
            arrived = self.driver.changes(cursor)
            self.assertEqual(2, len(arrived.statuses))
            self.clock.advance(1)
        self.driver.changes(arrived.cursor)
        self.cloud.queries.clear()
        self.assertEqual([], self.told_ready(arrived.cursor))
        self.assertEqual(['GET /servers/detail'], [what for what, _ in self.cloud.queries])

    def test_a_failed_request_for_one_server_discards_no_other_answer(self):
        cursor = self.driver.changes().cursor
        self.clock.advance(1)
        self.cloud.answers[DETAIL] = {'servers': [active('c', 'c')]}
        self.cloud.answers['GET /servers/a'] = self.cloud.answers['GET /servers/b'] = AWAY
        self.assertEqual(['c'], self.told_ready(cursor))

    def test_a_deleted_server_is_no_longer_requested(self):
        cursor = self.driver.changes().cursor
        self.clock.advance(1)
        self.cloud.answers[DETAIL] = {'servers': [active(one, one) | GONE for one in ('a', 'b')]}
        self.cloud.queries.clear()
        self.driver.changes(cursor)
        self.assertEqual(['GET /servers/detail'], [what for what, _ in self.cloud.queries])

    def test_a_proven_server_is_no_longer_requested(self):
        for server_id in ('a', 'b'):
            self.cloud.answers[f'GET /servers/{server_id}/os-interface'] = PORT
        self.assertEqual(['a', 'b', 'c'], self.ready())
        self.assertEqual(2, len(self.asked()))
        self.assertEqual(['a', 'b', 'c'], self.ready())
        self.assertEqual([], self.asked())

    def test_a_server_that_lost_its_port_is_in_error(self):
        self.cloud.answers['GET /servers/a/os-interface'] = {'interfaceAttachments': []}
        states = {status.amphora_id: status.state for status in self.driver.changes().statuses}
        self.assertIs(State.ERROR, states['a'])

    def test_a_permanent_refusal_is_raised(self):
        self.cloud.answers['GET /servers/a/os-interface'] = (
            403, {}, {'forbidden': {'code': 403, 'message': 'Policy does not allow it.'}},
        )  # fmt: skip
        with self.assertRaises(AmphoraComputeError):
            self.driver.changes()
