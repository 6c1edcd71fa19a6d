"""A kiln site on the real Ironic with simulated nodes, behind a proxy that injects faults."""

import json
import time
import uuid

from oslo_config import cfg

import kiln.conf
from kiln.compute.backends import stack_settings
from kiln.compute.facade import Compute
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.ironic.driver import IronicDriver
from kiln.conf import compute as compute_conf
from kiln.models import State
from kiln.testing.proxy import Answer, FaultProxy
from tests.functional.cloud import CloudTestCase
from tests.functional.proxy_bench import ProxyBench

GROUP = 'compute:metal'
#: As many as a behaviour of the kit ever has at a time.
NODES = 24
CLASS, TRAIT = 'kiln-kit', 'CUSTOM_KILN_KIT'
PROPERTY = 'availability_zone'
IMAGE = 'http://127.0.0.1/none.qcow2#sha256=' + '0' * 64
WAIT_S = 120


def options_of(given):
    """Return the options of a backend."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    kiln.conf.register(conf, GROUP, compute_conf.BACKEND_OPTS)
    kiln.conf.register(conf, GROUP, IronicDriver.options)
    for name, value in given.items():
        conf.set_override(name, value, GROUP)
    return conf[GROUP]


class IronicCase(CloudTestCase):
    """Drivers of one Ironic behind one proxy, with nodes of a class of their own."""

    services = ('ironic',)
    who = 'kiln-system'
    alone = False
    clock = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.session = cls.cloud.session(cls.who)
        cls.url = cls.session.get_endpoint(service_type='baremetal', interface='public')
        cls.proxy = FaultProxy(cls.url)
        cls.proxy.start()
        cls.addClassCleanup(cls.proxy.close)
        cls.nodes = enrol(cls.ask)

    @classmethod
    def ask(cls, method, path, **more):
        """Ask Ironic itself, without the proxy."""
        return cls.session.request(
            f'{cls.url}/v1{path}',
            method,
            # A connection that is kept would count as left open by the driver.
            headers={'X-OpenStack-Ironic-API-Version': '1.90', 'Connection': 'close'},
            raise_exc=False,
            **more,
        )

    def setUp(self):
        super().setUp()
        self.owner = f't-{uuid.uuid4().hex[:8]}'
        self.addCleanup(self.heal)
        power_on(self.ask)

    def heal(self):
        for rule in self.proxy.faults:
            rule.remove()
        self.proxy.up()
        self.proxy.forget()

    def options(self, **given):
        defaults = {
            'baremetal_endpoint_override': self.proxy.url,
            'valid_interfaces': ['public'],
            'flavor': CLASS,
            'image': IMAGE,
            'zone_property': PROPERTY,
            'timeout': 30.0,
        }
        return options_of({**self.cloud.auth(self.who), **defaults, **given})

    def open_driver(self, owner=None, **given):
        options = self.options(**given)
        driver = IronicDriver.open(options, name='ironic', owner=owner or self.owner)
        self.addCleanup(driver.close)
        return driver

    def open_compute(self, listeners=(), **given):
        options = self.options(**given)
        driver = IronicDriver.open(options, name='ironic', owner=self.owner)
        compute = Compute(driver, settings=stack_settings(options), listeners=listeners)
        self.addCleanup(compute.close, 5)
        return compute

    def claims(self):
        """The allocations of this test that Ironic itself returns."""
        rows = self.ask('GET', '/allocations').json()['allocations']
        return [one for one in rows if one['extra'].get('kiln', {}).get('owner') == self.owner]

    def node_of(self, amphora_id):
        """The node of an amphora, as Ironic itself shows it."""
        query = {'instance_uuid': amphora_id.partition('.')[0], 'detail': 'true'}
        (found,) = self.ask('GET', '/nodes', params=query).json()['nodes']
        return found

    def settled(self, driver, amphora_id, state=State.ACTIVE):
        end = time.monotonic() + WAIT_S
        while True:
            status = driver.status(amphora_id)
            if status.state is state and status.task_state is None:
                return status
            self.assertLess(time.monotonic(), end, status)
            time.sleep(0.1)

    def eventually(self, is_so):
        end = time.monotonic() + WAIT_S
        while not is_so():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)


def power_on(ask):
    """Turn free nodes on: simulated ones are not turned on by their deployment."""
    query = {'resource_class': CLASS, 'provision_state': 'available', 'detail': 'true'}
    for node in ask('GET', '/nodes', params=query).json()['nodes']:
        if node['power_state'] != 'power on':
            ask('PUT', f'/nodes/{node["uuid"]}/states/power', json={'target': 'power on'})


def enrol(ask):
    """Make the nodes of the tests available, as far as they are not; return their uuids."""
    query = {'resource_class': CLASS, 'detail': 'true'}
    known = {one['name']: one for one in ask('GET', '/nodes', params=query).json()['nodes']}
    for nth in range(NODES):
        if f'kit-{nth}' not in known:
            known[f'kit-{nth}'] = _enrolled(ask, nth)
    end = time.monotonic() + WAIT_S
    while True:
        found = ask('GET', '/nodes', params=query).json()['nodes']
        free = [one for one in found if one['provision_state'] == 'available']
        if len(free) == NODES:
            return [one['uuid'] for one in free]
        for one in found:
            if one['provision_state'] == 'manageable':
                _provision(ask, one['uuid'], 'provide')
        if time.monotonic() > end:
            raise AssertionError({one['name']: one['provision_state'] for one in found})
        time.sleep(0.2)


def _enrolled(ask, nth):
    node = {
        'driver': 'fake-hardware',
        'name': f'kit-{nth}',
        'resource_class': CLASS,
        'properties': {'cpu_arch': 'x86_64', PROPERTY: f'az{nth % 2}'},
        'extra': {'addresses': [f'192.0.2.{nth + 1}']},
        **{f'{kind}_interface': 'fake' for kind in ('boot', 'deploy', 'management', 'power')},
    }
    made = ask('POST', '/nodes', json=node).json()
    uuid_ = made['uuid']
    ask('PUT', f'/nodes/{uuid_}/traits/{TRAIT}')
    ask('PUT', f'/nodes/{uuid_}/states/power', json={'target': 'power on'})
    _provision(ask, uuid_, 'manage')
    return made


def _provision(ask, uuid_, target):
    end = time.monotonic() + WAIT_S
    body = {'target': target}
    while (answer := ask('PUT', f'/nodes/{uuid_}/states/provision', json=body)).status_code == 409:
        if time.monotonic() > end:
            raise AssertionError(answer.text)
        time.sleep(0.1)


def ironic_error(status, said='the test says so', **more):
    """Return an answer with Ironic's own form of an error."""
    fault = {'faultcode': 'Server', 'faultstring': said, 'debuginfo': None}
    return Answer(status, json.dumps({'error_message': fault}), **more)


_ONE, _CLAIM = r'/nodes/[0-9a-f-]{36}', r'/allocations/[0-9a-f-]{36}'
_REQUESTS = {
    # What makes a machine; the claim before it makes none.
    Call.BUILD: ('PUT', rf'{_ONE}/states/provision'),
    Call.DELETE: ('PUT', rf'{_ONE}/states/provision'),
    Call.GET: ('GET', _CLAIM),
    Call.STATUS: ('GET', _CLAIM),
    Call.FIND_BUILD: ('GET', _CLAIM),
    Call.LIST: ('GET', '/allocations'),
    Call.FIND: ('GET', '/allocations'),
    Call.CHANGES: ('GET', '/allocations'),
    Call.STATUSES: ('GET', rf'/allocations|{_CLAIM}'),
    Call.CHECK: ('GET', '/allocations'),
}


class IronicBench(ProxyBench):
    """Makes the real Ironic fail: by the proxy in front of it, and by what it is asked."""

    requests = _REQUESTS

    def unavailable(self):
        return ironic_error(503)

    def slow_down(self, retry_after):
        return ironic_error(429, retry_after=retry_after)
