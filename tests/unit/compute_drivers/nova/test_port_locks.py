"""The ports made as locks go with their servers, also where Nova let go of them before."""

import json
import threading
import time
import unittest

from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.exceptions import AmphoraComputeError, InvalidBuildRequest
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.nova.corpus import SERVERS
from tests.unit.compute_drivers.nova.loopback import Loopback
from tests.unit.compute_drivers.nova.written import written

IMAGE = '4bfa4ff8-0632-421c-b662-4005c136db4b'
NETWORK = '6b1f3f52-42d3-4b0c-9a53-6e7d1d3a8b1e'
DETAIL = 'GET /servers/detail'
NONE = (404, {}, {'itemNotFound': {'code': 404, 'message': 'Instance s-1 could not be found.'}})
SERVER = SERVERS['building'] | {'id': 's-1', 'tags': ['kiln-key:k-1', 'kiln-site:kiln']}


class Cloud(Loopback):
    """Lists the ports that it is asked for, as Neutron does."""

    def __init__(self, clock):
        self.ports = {}
        #: Answers a request for a server, where one answer for all will not do.
        self.create = None
        super().__init__({'GET /flavors': {'flavors': [{'id': 'f-1', 'name': 'tiny'}]}}, clock)

    def port(self, port_id, key, device_id=''):
        """Have one there of a build of this site."""
        self.ports[port_id] = {
            'id': port_id, 'name': f'kiln-{key}', 'device_id': device_id,
            'description': 'kiln-site:kiln',
        }  # fmt: skip
        self.answers[f'DELETE /v2.0/ports/{port_id}'] = (204, {}, '')

    def answer(self, what, query):
        if what == 'POST /servers' and self.create is not None:
            self.answers[what] = self.create()
        if what == 'GET /v2.0/ports':
            asked = {name: query[name] for name in query if name != 'fields'}
            ports = [one for one in self.ports.values() if asked.items() <= one.items()]
            self.answers[what] = {'ports': ports}
        return super().answer(what, query)

    def deleted(self):
        """Return the ids of the ports of which the deletion was asked for."""
        path = 'DELETE /v2.0/ports/'
        return [what.removeprefix(path) for what, _ in self.queries if what.startswith(path)]


class PortsOfDeleted(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.cloud = self.enterContext(Cloud(self.clock))
        conf = written(
            'auth_type = none', f'compute_endpoint_override = {self.cloud.url}',
            f'image_endpoint_override = {self.cloud.url}',
            f'network_endpoint_override = {self.cloud.url}', 'microversion = 2.96',
            'flavor = tiny', f'image = {IMAGE}', f'networks = {NETWORK}', 'port_lock = true',
        )  # fmt: skip
        self.driver = NovaDriver.open(conf, name='east', owner='kiln', clock=self.clock)
        self.addCleanup(self.driver.close)
        self.cloud.answers['DELETE /servers/s-1'] = (204, {}, '')

    def find_after_a_doubt(self):
        """Build s-1 with an answer that is lost, and find it."""
        self.cloud.answers['POST /v2.0/ports'] = (201, {}, {'port': {'id': 'p-1'}})
        self.cloud.answers['POST /servers'] = (502, {}, '<html>lost</html>')
        with self.assertRaises(AmphoraComputeError):
            self.driver.build(name='web', build_key='k-1')
        self.cloud.port('p-1', 'k-1')
        self.cloud.answers[DETAIL] = {'servers': [SERVER]}
        self.assertEqual('s-1', self.driver.find_build('k-1').id)

    def reaped(self):
        """Have time pass until nothing is left to remove; return the ports that were."""
        while any(one.name == 'kiln-port-reaper' for one in threading.enumerate()):
            self.clock.advance(1)
            time.sleep(0.001)
        return self.cloud.deleted()

    def test_one_found_after_a_doubt_takes_the_port_that_it_never_got(self):
        self.find_after_a_doubt()
        self.driver.delete('s-1')
        self.assertEqual(['p-1'], self.reaped())

    def test_one_that_somebody_else_has_deleted_takes_it_too(self):
        self.find_after_a_doubt()
        self.cloud.answers['DELETE /servers/s-1'] = NONE
        self.driver.delete('s-1')
        self.assertEqual(['p-1'], self.reaped())

    def test_one_made_by_another_process_takes_the_port_that_it_has(self):
        self.cloud.port('p-1', 'k-1', device_id='s-1')
        self.driver.delete('s-1')
        self.assertEqual(['p-1'], self.reaped())
        self.assertNotIn('GET /servers/s-1', [what for what, _ in self.cloud.queries])

    def test_one_made_by_another_process_takes_the_port_that_it_never_got(self):
        self.cloud.answers['GET /servers/s-1'] = {'server': SERVER}
        self.cloud.port('p-1', 'k-1')
        self.driver.delete('s-1')
        self.assertEqual(['p-1'], self.reaped())

    def test_a_build_whose_port_goes_with_the_last_server_of_its_key_takes_another(self):
        self.cloud.port('p-1', 'k-1')
        self.cloud.answers['POST /v2.0/ports'] = (201, {}, {'port': {'id': 'p-2'}})
        self.cloud.answers[DETAIL] = {'servers': []}
        sent = []

        def create():
            sent.append(json.loads(self.cloud.asked[-1][2])['server']['networks'])
            # Removed by whoever saw the last server go, after it was chosen.
            if self.cloud.ports.pop('p-1', None):
                told = 'Port id p-1 could not be found.'
                return 400, {}, {'badRequest': {'code': 400, 'message': told}}
            return 202, {}, {'server': {'id': 's-2'}}

        self.cloud.create = create
        self.assertEqual('s-2', self.driver.build(name='web', build_key='k-1'))
        self.assertEqual([[{'port': 'p-1'}], [{'port': 'p-2'}]], sent)

    def test_a_build_that_is_refused_for_another_reason_is_sent_once(self):
        self.cloud.answers['POST /v2.0/ports'] = (201, {}, {'port': {'id': 'p-1'}})
        self.cloud.answers['GET /v2.0/ports/p-1'] = {'port': {'id': 'p-1'}}
        self.cloud.port('p-1', 'k-1')
        self.cloud.answers[DETAIL] = {'servers': []}
        refused = {'badRequest': {'code': 400, 'message': 'The image is too large.'}}
        self.cloud.answers['POST /servers'] = (400, {}, refused)
        with self.assertRaisesRegex(InvalidBuildRequest, 'too large'):
            self.driver.build(name='web', build_key='k-1')
        self.assertEqual(1, [what for what, _ in self.cloud.queries].count('POST /servers'))
        self.assertEqual(['p-1'], self.cloud.deleted())

    def test_the_ports_of_others_stay(self):
        self.cloud.answers['GET /servers/s-1'] = {'server': SERVER}
        self.cloud.port('p-1', 'k-1', device_id='s-2')
        self.cloud.port('p-2', 'k-2')
        self.driver.delete('s-1')
        self.assertEqual([], self.reaped())

    def test_one_that_never_was_has_none(self):
        self.cloud.answers['GET /servers/s-1'] = NONE
        self.cloud.answers['DELETE /servers/s-1'] = NONE
        self.driver.delete('s-1')
        self.assertEqual([], self.reaped())

    def test_where_its_build_cannot_be_told_nothing_is_deleted_yet(self):
        self.cloud.answers['GET /servers/s-1'] = (503, {}, '<html>away</html>')
        with self.assertRaises(AmphoraComputeError) as caught:
            self.driver.delete('s-1')
        self.assertTrue(caught.exception.retryable)
        self.assertNotIn('DELETE /servers/s-1', [what for what, _ in self.cloud.queries])
