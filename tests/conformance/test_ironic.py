"""The Ironic driver keeps every promise on a played Ironic: bare, wrapped, and when it fails."""

import base64
import contextlib
import email
import gzip
import json
import unittest
from types import MappingProxyType

from kiln.clock import SYSTEM_CLOCK
from kiln.compute.stack import assemble
from kiln.compute_drivers.authoring.bench import Bench
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.ironic.driver import IronicDriver
from kiln.models import ImageFacts, Resource, State
from kiln.telemetry.events import Listener
from kiln.testing.clock import VirtualClock
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.circuit.breaker import BreakerDriver
from tests.conformance import test_wrapped
from tests.unit.compute_drivers.ironic.case import IMAGE, options_of
from tests.unit.compute_drivers.ironic.played import PlayedIronic

OTHER_IMAGE = IMAGE.replace('debian', 'other')
_CLAIM, _PROVISION = r'/v1/allocations/', '/states/provision$'
_REQUESTS = {
    Call.BUILD: ('PUT', _PROVISION),
    Call.DELETE: ('PUT', _PROVISION),
    Call.GET: ('GET', _CLAIM),
    Call.STATUS: ('GET', _CLAIM),
    Call.FIND_BUILD: ('GET', _CLAIM),
    Call.LIST: ('GET', '/v1/allocations$'),
    Call.FIND: ('GET', '/v1/allocations$'),
    Call.CHANGES: ('GET', '/v1/allocations$'),
    Call.STATUSES: ('GET', '/v1/allocations'),
    Call.CHECK: ('GET', '/v1/allocations$'),
}


class PlayedBench(Bench):
    """Makes the played Ironic fail."""

    states = MappingProxyType(
        {
            'rescue': State.ACTIVE, 'service failed': State.ERROR, 'deploy hold': State.BUILDING,
            'newly invented': State.UNKNOWN,
        }
    )  # fmt: skip

    def __init__(self, driver, ironic):
        super().__init__(driver)
        self._ironic = ironic

    def refuse(self, call):
        if call is Call.BUILD:
            self._ironic.fail_html(*_REQUESTS[call], 404)
        else:
            self._ironic.fail(*_REQUESTS[call], 503)

    def lose_answer(self, call):
        self._ironic.fail(*_REQUESTS[call], 502, None, after=True)

    def limit_rate(self, call, retry_after):
        self._ironic.fail(*_REQUESTS[call], 429, **{'Retry-After': str(retry_after)})

    def exhaust_capacity(self):
        self._ironic.full = 1

    def fail_build(self, text):
        self._ironic.deploy_fault = text

    def stall_build(self):
        self._ironic.stalls = 1

    def vanish(self, amphora_id):
        self._ironic._end(self._ironic.allocations[amphora_id.partition('.')[0]])

    def enter_state(self, amphora_id, state):
        node = self._node(amphora_id)
        node['provision_state'] = state

    def _node(self, amphora_id):
        uuid = amphora_id.partition('.')[0]
        return next(one for one in self._ironic.nodes.values() if one['instance_uuid'] == uuid)

    def reboots_hard(self, amphora_id):
        return self._node(amphora_id)['last_power_target'] == 'rebooting'

    def lacking(self, amphora_id, request):
        drive = self._ironic.drives[self._node(amphora_id)['uuid']]
        parts = parts_of(drive.get('user_data') or '')
        lacking = set()
        if request.user_data and request.user_data not in parts:
            lacking.add('user_data')
        if list(request.keys) != list(drive['meta_data'].get('public_keys', {}).values()):
            lacking.add('keys')
        written = {
            (one['path'], _content(one), one['permissions'], one['owner'])
            for part in parts
            if part.startswith(b'#cloud-config')
            for one in json.loads(part.partition(b'\n')[2])['write_files']
        }
        for file in request.files:
            if (file.path, file.content, f'{file.mode:04o}', file.owner) not in written:
                lacking.add('files')
        return lacking

    @contextlib.contextmanager
    def outage(self):
        self._ironic.fail('GET', '', 503, times=10**6)
        for method in ('POST', 'PUT', 'PATCH', 'DELETE'):
            self._ironic.fail(method, '', 503, times=10**6)
        try:
            yield
        finally:
            self._ironic.faults.clear()


def parts_of(text):
    """Return the parts of user data, decoded."""
    message = email.message_from_string(text)
    if not message.is_multipart():
        return [text.encode()]
    return [part.get_payload(decode=True) for part in message.walk() if not part.is_multipart()]


def _content(entry):
    content = base64.b64decode(entry['content'])
    return gzip.decompress(content) if entry['encoding'] == 'gz+b64' else content


class OnPlayedIronic:
    """Opens drivers of one played Ironic, where nothing takes time."""

    images = (
        ImageFacts(id=IMAGE), ImageFacts(id=OTHER_IMAGE),
    )  # fmt: skip
    one_backend = True

    def setUp(self):
        self.ironic_clock = self.a_clock()
        self.ironic = self.enterContext(PlayedIronic(nodes=40, clock=self.ironic_clock))
        super().setUp()

    def a_clock(self):
        return VirtualClock()

    def make_driver(self):
        options = options_of(
            baremetal_endpoint_override=self.ironic.url, page_size=4, **self.more()
        )
        driver = IronicDriver.open(options, name='metal', owner='kiln', clock=self.ironic_clock)
        self.addCleanup(driver.close)
        return self.wrap(driver)

    def more(self):
        return {}

    def wrap(self, driver):
        return driver

    def make_faults(self, driver):
        return PlayedBench(driver, self.ironic)


class PlayedIronicConformance(
    OnPlayedIronic, ComputeDriverConformance, FaultConformance, unittest.TestCase
):
    def setUp(self):
        super().setUp()
        self.bench.lacking = self.faults.lacking
        self.bench.reboots_hard = self.faults.reboots_hard


class WrappedPlayedIronicConformance(OnPlayedIronic, ComputeDriverConformance, unittest.TestCase):
    def wrap(self, driver):
        return BreakerDriver(DriverWrapper(driver))


class AssembledPlayedIronicConformance(
    OnPlayedIronic, ComputeDriverConformance, unittest.TestCase
):
    def a_clock(self):
        return SYSTEM_CLOCK

    def wrap(self, driver):
        stack = assemble(driver, test_wrapped.AssembledConformance.settings, [Listener()])
        self.addCleanup(stack.close, 5.0)
        return stack.executor


class NetworkedPlayedIronicConformance(
    OnPlayedIronic, ComputeDriverConformance, FaultConformance, unittest.TestCase
):
    """With Neutron beside Ironic."""

    network_ids = ('net-1', 'net-2')

    def more(self):
        return {
            'use_neutron': True,
            'network_endpoint_override': self.ironic.url,
            'networks': ['net-2'],
        }

    def port_id(self):
        return self._port()

    def _port(self, **more):
        _, made = self.ironic._new_port({'network_id': 'net-1', **more})
        return made['port']['id']

    def make_resources(self):
        port_id = self._port(description=f'kiln-site:{self.driver.owner}')
        return [Resource(kind='port', id=port_id, owner=self.driver.owner)]
