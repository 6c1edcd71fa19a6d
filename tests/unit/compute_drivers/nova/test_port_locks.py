"""Lock ports are deleted with their servers, even if Nova released them before."""

import json
import threading
import time
import unittest

from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.exceptions import AmphoraComputeError, InstanceStateConflict, InvalidBuildRequest
from kiln.models import Resource
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
    """Lists ports by the filters of a request, as Neutron on MySQL does: without capitals."""

    def __init__(self, clock):
        self.ports = {}
        #: Answers a request for a server, if a fixed answer is not enough.
        self.create = None
        super().__init__({'GET /flavors': {'flavors': [{'id': 'f-1', 'name': 'tiny'}]}}, clock)

    def port(self, port_id, key, device_id=''):
        """Add a port of a build of this site."""
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
            ports = [
                port
                for port in self.ports.values()
                if all(port[name].lower() == text.lower() for name, text in asked.items())
            ]
            self.answers[what] = {'ports': ports}
        return super().answer(what, query)

    def deleted(self):
        """Return the ids of the ports whose deletion was requested."""
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
        """Build s-1, lose the answer, and find the server."""
        self.cloud.answers['POST /v2.0/ports'] = (201, {}, {'port': {'id': 'p-1'}})
        self.cloud.answers['POST /servers'] = (502, {}, '<html>lost</html>')
        with self.assertRaises(AmphoraComputeError):
            self.driver.build(name='web', build_key='k-1')
        self.cloud.port('p-1', 'k-1')
        self.cloud.answers[DETAIL] = {'servers': [SERVER]}
        self.assertEqual('s-1', self.driver.find_build('k-1').id)

    def reaped(self):
        """Advance the clock until no port is left to delete; return the deleted ports."""
        while any(one.name == 'kiln-port-reaper' for one in threading.enumerate()):
            self.clock.advance(1)
            time.sleep(0.001)
        return self.cloud.deleted()

    def test_a_server_found_after_a_doubt_takes_its_unused_port_along(self):
        self.find_after_a_doubt()
        self.driver.delete('s-1')
        self.assertEqual(['p-1'], self.reaped())

    def test_a_server_deleted_elsewhere_takes_its_unused_port_along(self):
        self.find_after_a_doubt()
        self.cloud.answers['DELETE /servers/s-1'] = NONE
        self.driver.delete('s-1')
        self.assertEqual(['p-1'], self.reaped())

    def test_a_server_of_another_process_takes_its_port_along(self):
        self.cloud.port('p-1', 'k-1', device_id='s-1')
        self.driver.delete('s-1')
        self.assertEqual(['p-1'], self.reaped())
        self.assertNotIn('GET /servers/s-1', [what for what, _ in self.cloud.queries])

    def test_a_server_of_another_process_takes_its_unused_port_along(self):
        self.cloud.answers['GET /servers/s-1'] = {'server': SERVER}
        self.cloud.port('p-1', 'k-1')
        self.driver.delete('s-1')
        self.assertEqual(['p-1'], self.reaped())

    def test_a_build_whose_port_goes_with_the_last_server_of_its_key_creates_another(self):
        self.cloud.port('p-1', 'k-1')
        self.cloud.answers['POST /v2.0/ports'] = (201, {}, {'port': {'id': 'p-2'}})
        self.cloud.answers[DETAIL] = {'servers': []}
        sent = []

        def create():
            sent.append(json.loads(self.cloud.asked[-1][2])['server']['networks'])
            # Deleted together with the last server, after it was chosen.
            if self.cloud.ports.pop('p-1', None):
                told = 'Port id p-1 could not be found.'
                return 400, {}, {'badRequest': {'code': 400, 'message': told}}
            return 202, {}, {'server': {'id': 's-2'}}

        self.cloud.create = create
        self.assertEqual('s-2', self.driver.build(name='web', build_key='k-1'))
        self.assertEqual([[{'port': 'p-1'}], [{'port': 'p-2'}]], sent)

    def test_a_build_refused_for_another_reason_is_sent_once(self):
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

    def test_the_port_of_a_server_is_not_deleted_as_a_resource_while_the_server_exists(self):
        port = Resource(kind='port', id='p-1', owner='kiln')
        self.cloud.port('p-1', 'k-1', device_id='s-1')
        self.cloud.answers['GET /v2.0/ports/p-1'] = {'port': {'device_id': 's-1'}}
        self.cloud.answers['GET /servers/s-1'] = {'server': SERVER}
        with self.assertRaisesRegex(InstanceStateConflict, 's-1'):
            self.driver.delete_resource(port)
        self.assertEqual([], self.cloud.deleted())
        self.cloud.answers['GET /servers/s-1'] = NONE
        self.driver.delete_resource(port)
        self.assertEqual(['p-1'], self.cloud.deleted())

    def test_a_port_that_is_gone_is_deleted_as_a_resource(self):
        told = {
            'NeutronError': {'type': 'PortNotFound', 'message': 'Port p-1 could not be found.'}
        }
        self.cloud.answers['GET /v2.0/ports/p-1'] = (404, {}, told)
        self.driver.delete_resource(Resource(kind='port', id='p-1', owner='kiln'))
        self.assertEqual([], self.cloud.deleted())

    def test_ports_of_other_servers_stay(self):
        self.cloud.answers['GET /servers/s-1'] = {'server': SERVER}
        self.cloud.port('p-1', 'k-1', device_id='s-2')
        self.cloud.port('p-2', 'k-2')
        self.cloud.port('p-3', 'K-1')
        self.driver.delete('s-1')
        self.assertEqual([], self.reaped())

    def test_a_server_that_never_existed_has_no_port(self):
        self.cloud.answers['GET /servers/s-1'] = NONE
        self.cloud.answers['DELETE /servers/s-1'] = NONE
        self.driver.delete('s-1')
        self.assertEqual([], self.reaped())

    def test_a_server_whose_build_cannot_be_read_is_not_deleted(self):
        self.cloud.answers['GET /servers/s-1'] = (503, {}, '<html>away</html>')
        with self.assertRaises(AmphoraComputeError) as caught:
            self.driver.delete('s-1')
        self.assertTrue(caught.exception.retryable)
        self.assertNotIn('DELETE /servers/s-1', [what for what, _ in self.cloud.queries])
